#include "batch/completion_answer.h"

#include <algorithm>
#include <utility>

#include "batch/protocol_answer.h"
#include "text/stop_strings.h"
#include "text/stream_decoder.h"

namespace deepinfer::cli {
namespace {

class CompletionAnswer final : public BatchAnswer {
 public:
  CompletionAnswer(CompletionsAnswer answer, const Tokenizer& tokenizer, std::vector<int32_t> end_tokens,
                   std::vector<std::string> stop)
      : answer_(std::move(answer)),
        tokenizer_(tokenizer),
        decoder_(tokenizer),
        stops_(std::move(stop)),
        end_tokens_(std::move(end_tokens)) {}

  bool take(const GeneratedToken& token) override {
    if (stopped()) return false;
    if (std::find(end_tokens_.begin(), end_tokens_.end(), token.token) != end_tokens_.end()) return false;
    ++answer_.output_tokens;
    if (answer_.with_logprobs) answer_.logprobs.push_back(token_logprobs(tokenizer_, token));
    stops_.feed(decoder_.push(token.token), answer_.text);
    return !stopped();
  }

  std::string body(const RequestSummary& summary) override {
    if (!stopped()) {
      stops_.feed(decoder_.finish(), answer_.text);
      stops_.finish(answer_.text);
    }
    answer_.prompt.cached_tokens = summary.cached_tokens;
    answer_.end = summary.reason == EndReason::kLength && !stopped() ? AnswerEnd::kLength : AnswerEnd::kStop;
    return completions_object(answer_);
  }

  bool stopped() const override { return stops_.found() != nullptr; }

 private:
  CompletionsAnswer answer_;
  const Tokenizer& tokenizer_;
  StreamDecoder decoder_;
  StopStrings stops_;
  std::vector<int32_t> end_tokens_;
};

}  // namespace

std::unique_ptr<BatchAnswer> make_completion_answer(CompletionsAnswer answer, const Tokenizer& tokenizer,
                                                    std::vector<int32_t> end_tokens, std::vector<std::string> stop) {
  return std::make_unique<CompletionAnswer>(std::move(answer), tokenizer, std::move(end_tokens), std::move(stop));
}

}  // namespace deepinfer::cli
