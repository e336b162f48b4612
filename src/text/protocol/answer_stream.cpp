#include "text/protocol/answer_stream.h"

#include <algorithm>
#include <utility>

#include "text/protocol/call_ids.h"
#include "text/utf8.h"

namespace deepinfer {

using Kind = OutputEvent::Kind;

AnswerStream::AnswerStream(std::unique_ptr<AnswerWriter> writer, const OutputParserOptions& parser, bool thinking,
                           AnswerIdentity identity)
    : writer_(std::move(writer)), stop_(parser.stop), parser_(parser) {
  answer_.identity = std::move(identity);
  answer_.thinking = thinking;
  answer_.begins_with_thinking =
      parser.start == OutputStart::kReasoning || parser.start == OutputStart::kReasoningContinued;
}

void AnswerStream::open(const PromptUsage& prompt, EventSink sink) {
  answer_.prompt = prompt;
  writer_->open(answer_, sink);
}

bool AnswerStream::push(const AnswerPiece& piece, EventSink sink) {
  if (!is_valid_utf8(piece.text)) {  // every event must be valid JSON
    AnswerPiece repaired{{}, piece.tokens, piece.logprobs};
    append_repaired_utf8(piece.text, repaired.text);
    return push(repaired, sink);
  }
  const uint64_t end = received_ + piece.text.size();
  for (const TokenLogprobs& token : piece.logprobs) {
    // A token's bytes lie inside its piece; repaired text may be shorter or longer than they are.
    const uint64_t last = end > received_ ? end - 1 : end;
    const uint64_t begin = std::min(pending_.empty() ? received_ : std::max(received_, pending_.back().end), last);
    pending_.push_back({begin, std::min(begin + std::max<uint64_t>(token.bytes.size(), 1), end), token});
  }
  received_ = end;
  answer_.output_tokens += piece.tokens;
  return parser_.push(piece.text, [&](const OutputEvent& event) { handle(event, sink); });
}

void AnswerStream::finish(AnswerEnd end, FunctionRef<int64_t(std::string_view)> count_tokens, int64_t now,
                          EventSink sink) {
  parser_.finish([&](const OutputEvent& event) { handle(event, sink); });
  answer_.end = end;
  if (parser_.matched_stop() >= 0) {
    answer_.end = AnswerEnd::kStop;
    answer_.stopped_by_string = true;
    answer_.stop = stop_[static_cast<size_t>(parser_.matched_stop())];
  }
  answer_.reasoning_tokens = answer_.reasoning.empty() ? 0 : count_tokens(answer_.reasoning);
  answer_.completed = now;
  writer_->close(answer_, sink);
}

void AnswerStream::handle(const OutputEvent& event, EventSink sink) {
  const auto append = [](std::string& all, const std::string& more) {
    if (!more.empty()) all.append(all.empty() ? "" : ",").append(more);
  };
  switch (event.kind) {
    case Kind::kReasoning: {
      const std::string logprobs = take_logprobs(event);
      answer_.reasoning += event.text;
      append(answer_.reasoning_logprobs, logprobs);
      writer_->reasoning(answer_, event.text, logprobs, sink);
      return;
    }
    case Kind::kContent: {
      const std::string logprobs = take_logprobs(event);
      answer_.content += event.text;
      append(answer_.content_logprobs, logprobs);
      writer_->content(answer_, event.text, logprobs, sink);
      return;
    }
    case Kind::kToolCallBegin:
      return;
    case Kind::kToolCall: {
      const bool empty_thinking = answer_.thinking && answer_.reasoning.empty();
      const uint64_t random = answer_.identity.random + static_cast<uint64_t>(event.call) * 0x632BE59BD9B4E019u;
      answer_.calls.push_back({make_call_id(event.call, empty_thinking, random), std::string(event.text), {}, false});
      writer_->call(answer_, sink);
      return;
    }
    case Kind::kToolArguments:
      answer_.calls.back().arguments += event.text;
      writer_->arguments(answer_, event.text, sink);
      return;
    case Kind::kToolCallEnd:
      answer_.calls.back().closed = true;
      writer_->call_end(answer_, sink);
      return;
  }
}

// Tokens before the event made no text (markup, dropped line feeds); those that reach into it belong to it.
std::string AnswerStream::take_logprobs(const OutputEvent& event) {
  std::string out;
  while (!pending_.empty() && pending_.front().begin < event.input_end) {
    if (pending_.front().end > event.input_begin) {
      if (!out.empty()) out += ',';
      append_logprobs(out, pending_.front().token);
    }
    pending_.pop_front();
  }
  return out;
}

void TokenPieces::add(int32_t id, const TokenLogprobs* logprobs) {
  ready_.text += decoder_.push(id);
  ++waiting_.tokens;
  if (logprobs != nullptr) waiting_.logprobs.push_back(*logprobs);
  if (!decoder_.pending().empty()) return;
  ready_.tokens += std::exchange(waiting_.tokens, 0);
  std::move(waiting_.logprobs.begin(), waiting_.logprobs.end(), std::back_inserter(ready_.logprobs));
  waiting_.logprobs.clear();
}

AnswerPiece TokenPieces::take() {
  return std::exchange(ready_, {});
}

void append_server_sent_event(std::string& out, std::string_view event, std::string_view data) {
  if (!event.empty()) out.append("event: ").append(event).append("\n");
  out.append("data: ").append(data).append("\n\n");
}

}  // namespace deepinfer
