#include "serving/requests/protocol_answer.h"

#include <chrono>
#include <string>
#include <utility>

#include "serving/requests/token_logprobs.h"

namespace deepinfer::serving {
namespace {

int64_t now() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch()).count();
}

class ProtocolAnswer final : public RequestAnswer {
 public:
  ProtocolAnswer(std::vector<AnswerStream> streams, const Tokenizer& tokenizer, AnswerEnds ends,
                 const ProtocolAnswerOptions& options)
      : tokenizer_(tokenizer), ends_(std::move(ends)), options_(options), open_choices_(streams.size()) {
    for (AnswerStream& stream : streams) choices_.push_back({std::move(stream), TokenPieces(tokenizer)});
  }

  void open(int64_t cached_tokens, EventSink sink) override {
    for (Choice& choice : choices_) choice.stream.open({options_.prompt_tokens, cached_tokens}, sink);
  }

  void take_prompt_logprobs(int index, std::span<const GeneratedToken> tokens) override {
    choices_[static_cast<size_t>(index)].stream.set_prompt_logprobs(prompt_logprobs(tokenizer_, tokens));
  }

  bool take(int index, const GeneratedToken& token, EventSink sink) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    if (choice.stopped || ends_.ends(token.token)) return false;
    if (ends_.skips(token.token)) {
      choice.stream.push({{}, 1, {}}, sink);
      return true;
    }
    if (options_.logprobs) {
      const TokenLogprobs shown = token_logprobs(tokenizer_, token);
      choice.pieces.add(token.token, &shown);
    } else {
      choice.pieces.add(token.token, nullptr);
    }
    const AnswerPiece piece = choice.pieces.take();
    if (!piece.text.empty()) choice.stopped = !choice.stream.push(piece, sink);
    return !choice.stopped;
  }

  bool stopped(int choice) const override { return choices_[static_cast<size_t>(choice)].stopped; }

  void end(int index, const RequestSummary& summary, EventSink sink) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    choice.stream.set_prompt_usage({options_.prompt_tokens, summary.cached_tokens});
    if (options_.draft_usage) choice.stream.set_draft_usage({summary.drafted, summary.accepted});
    const auto count = [this](std::string_view text) {
      std::vector<int32_t> ids;
      const Status status = tokenizer_.encode_plain(text, ids);
      return status.ok() ? static_cast<int64_t>(ids.size()) : 0;
    };
    choice.stream.finish(summary.reason == EndReason::kLength ? AnswerEnd::kLength : AnswerEnd::kStop, count,
                         options_.completed ? *options_.completed : now(), sink);
    if (--open_choices_ == 0 && choices_.size() > 1) end_chat_completions(answers(), options_.include_usage, sink);
  }

  std::string object() const override {
    return choices_.size() == 1 ? choices_.front().stream.object() : chat_completions_object(answers());
  }

 private:
  struct Choice {
    AnswerStream stream;
    TokenPieces pieces;
    bool stopped = false;
  };

  std::vector<const Answer*> answers() const {
    std::vector<const Answer*> all;
    for (const Choice& choice : choices_) all.push_back(&choice.stream.answer());
    return all;
  }

  const Tokenizer& tokenizer_;
  AnswerEnds ends_;
  ProtocolAnswerOptions options_;
  std::vector<Choice> choices_;
  size_t open_choices_;
};

}  // namespace

std::unique_ptr<RequestAnswer> make_protocol_answer(std::vector<AnswerStream> streams, const Tokenizer& tokenizer,
                                                    AnswerEnds ends, const ProtocolAnswerOptions& options) {
  return std::make_unique<ProtocolAnswer>(std::move(streams), tokenizer, std::move(ends), options);
}

}  // namespace deepinfer::serving
