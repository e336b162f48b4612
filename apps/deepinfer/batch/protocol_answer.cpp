#include "batch/protocol_answer.h"

#include <algorithm>
#include <string>
#include <utility>

namespace deepinfer::cli {
namespace {

constexpr auto no_events = [](std::string_view, std::string_view) {};

class ProtocolAnswer final : public BatchAnswer {
 public:
  ProtocolAnswer(AnswerStream stream, const Tokenizer& tokenizer, std::vector<int32_t> end_tokens, bool logprobs,
                 int64_t prompt_tokens, int64_t now)
      : stream_(std::move(stream)),
        tokenizer_(tokenizer),
        pieces_(tokenizer),
        end_tokens_(std::move(end_tokens)),
        logprobs_(logprobs),
        prompt_tokens_(prompt_tokens),
        now_(now) {
    stream_.open({prompt_tokens, 0}, no_events);
  }

  bool take(const GeneratedToken& token) override {
    if (stopped_) return false;
    if (std::find(end_tokens_.begin(), end_tokens_.end(), token.token) != end_tokens_.end()) return false;
    if (logprobs_) {
      const TokenLogprobs shown = token_logprobs(tokenizer_, token);
      pieces_.add(token.token, &shown);
    } else {
      pieces_.add(token.token, nullptr);
    }
    const AnswerPiece piece = pieces_.take();
    if (!piece.text.empty()) stopped_ = !stream_.push(piece, no_events);
    return !stopped_;
  }

  std::string body(const RequestSummary& summary) override {
    stream_.set_prompt_usage({prompt_tokens_, summary.cached_tokens});
    const auto count = [this](std::string_view text) {
      std::vector<int32_t> ids;
      const Status status = tokenizer_.encode_plain(text, ids);
      return status.ok() ? static_cast<int64_t>(ids.size()) : 0;
    };
    stream_.finish(summary.reason == EndReason::kLength ? AnswerEnd::kLength : AnswerEnd::kStop, count, now_,
                   no_events);
    return stream_.object();
  }

  bool stopped() const override { return stopped_; }

 private:
  AnswerStream stream_;
  const Tokenizer& tokenizer_;
  TokenPieces pieces_;
  std::vector<int32_t> end_tokens_;
  bool logprobs_;
  int64_t prompt_tokens_, now_;
  bool stopped_ = false;
};

}  // namespace

std::unique_ptr<BatchAnswer> make_protocol_answer(AnswerStream stream, const Tokenizer& tokenizer,
                                                  std::vector<int32_t> end_tokens, bool logprobs, int64_t prompt_tokens,
                                                  int64_t now) {
  return std::make_unique<ProtocolAnswer>(std::move(stream), tokenizer, std::move(end_tokens), logprobs, prompt_tokens,
                                          now);
}

TokenLogprobs token_logprobs(const Tokenizer& tokenizer, const GeneratedToken& token) {
  TokenLogprobs shown{std::string(tokenizer.bytes(token.token)), token.logprob, {}};
  for (const TokenLogprob& other : token.top_logprobs)
    shown.top.push_back({std::string(tokenizer.bytes(other.token)), other.logprob});
  return shown;
}

}  // namespace deepinfer::cli
