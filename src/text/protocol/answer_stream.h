// AnswerStream: runs one answer from generated text to protocol events.  One per request; used by the server.
// It parses the output, counts tokens, makes call ids and attaches log-probabilities; the writer gives the form.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "text/output_parser.h"
#include "text/protocol/answer.h"
#include "text/protocol/answer_writer.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace deepinfer {

// A piece of output: whole characters, and how many tokens became complete with them.
struct AnswerPiece {
  std::string text;
  int64_t tokens = 0;
  std::vector<TokenLogprobs> logprobs;  // of these tokens, when they were asked for
};

class AnswerStream {
 public:
  // `thinking`: Conversation::thinking.
  AnswerStream(std::unique_ptr<AnswerWriter> writer, const OutputParserOptions& parser, bool thinking,
               AnswerIdentity identity);

  // The opening events; called once, before anything else.
  void open(const PromptUsage& prompt, EventSink sink);
  // What is known of the prompt after open() only: closing events and object() have it.
  void set_prompt_usage(const PromptUsage& prompt) { answer_.prompt = prompt; }
  void set_draft_usage(const DraftUsage& drafts) { answer_.drafts = drafts; }
  void set_prompt_logprobs(std::string json) { answer_.prompt_logprobs = std::move(json); }
  // False: a stop string matched, the generation should end.
  bool push(const AnswerPiece& piece, EventSink sink);
  // The closing events.  A stop string that matched wins over `end`.  `count_tokens` counts the tokens of the reasoning
  // text; `now` is in seconds since 1970.
  void finish(AnswerEnd end, FunctionRef<int64_t(std::string_view)> count_tokens, int64_t now, EventSink sink);

  const Answer& answer() const { return answer_; }
  // The whole answer as one object, after finish().
  std::string object() const { return writer_->object(answer_); }

 private:
  struct PendingLogprobs {
    uint64_t begin;  // bytes of the output
    uint64_t end;
    TokenLogprobs token;
  };

  void handle(const OutputEvent& event, EventSink sink);
  std::string take_logprobs(const OutputEvent& event);

  std::unique_ptr<AnswerWriter> writer_;
  std::vector<std::string> stop_;
  OutputParser parser_;
  Answer answer_;
  uint64_t received_ = 0;  // bytes of output
  std::deque<PendingLogprobs> pending_;
};

// Turns token ids into pieces.  Tokens of a character that is not complete yet wait; if the output ends there they give
// neither text nor usage.
class TokenPieces {
 public:
  explicit TokenPieces(const Tokenizer& tokenizer) : decoder_(tokenizer) {}

  // Adds the next token; `logprobs` may be null.
  void add(int32_t id, const TokenLogprobs* logprobs);
  // What can go out now.
  AnswerPiece take();

 private:
  StreamDecoder decoder_;
  AnswerPiece ready_;
  AnswerPiece waiting_;  // tokens (no text) of the incomplete character
};

}  // namespace deepinfer
