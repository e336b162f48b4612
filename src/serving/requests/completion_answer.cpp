#include "serving/requests/completion_answer.h"

#include <limits>
#include <utility>

#include "serving/requests/token_logprobs.h"
#include "text/stop_strings.h"
#include "text/stream_decoder.h"

namespace deepinfer::serving {
namespace {

class CompletionAnswer final : public RequestAnswer {
 public:
  CompletionAnswer(const CompletionsRequest& request, const AnswerIdentity& identity, std::span<const int32_t> prompt,
                   size_t begins_at, const Tokenizer& tokenizer, AnswerEnds ends)
      : tokenizer_(tokenizer),
        ends_(std::move(ends)),
        prompt_logprobs_(request.generation.prompt_logprobs.has_value()),
        include_usage_(request.include_usage),
        open_choices_(request.generation.n) {
    if (request.echo) echoed_.assign(prompt.begin() + static_cast<std::ptrdiff_t>(begins_at), prompt.end());
    begins_at_ = begins_at;
    for (uint32_t i = 0; i < request.generation.n; ++i) {
      CompletionsAnswer answer;
      answer.identity = identity;
      answer.identity.choice = static_cast<int>(i);
      answer.prompt.prompt_tokens = static_cast<int64_t>(prompt.size());
      answer.with_logprobs = request.logprobs.has_value();
      if (request.echo) answer.text = tokenizer.decode(echoed_);
      choices_.emplace_back(std::move(answer), tokenizer, request.stop);
    }
  }

  void open(EventSink sink) override {
    for (Choice& choice : choices_) {
      if (!choice.answer.with_logprobs) send_new(choice, sink);  // else with the log-probabilities of the prompt
    }
  }

  void take_prompt_logprobs(std::span<const GeneratedToken> tokens) override {
    CompletionsAnswer& answer = choices_.front().answer;
    if (prompt_logprobs_) answer.prompt_logprobs = prompt_logprobs(tokenizer_, tokens);
    if (echoed_.empty() || !answer.with_logprobs) return;
    // The engine has numbers of all tokens but the very first one.
    if (begins_at_ == 0) {
      const float none = std::numeric_limits<float>::quiet_NaN();
      answer.logprobs.push_back({std::string(tokenizer_.bytes(echoed_.front())), none, {}});
    }
    for (const GeneratedToken& token : tokens) answer.logprobs.push_back(token_logprobs(tokenizer_, token));
  }

  bool take(int index, const GeneratedToken& token, EventSink sink) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    if (stopped(index) || ends_.ends(token.token)) return false;
    ++choice.answer.output_tokens;
    if (ends_.skips(token.token)) return true;
    if (choice.answer.with_logprobs) choice.answer.logprobs.push_back(token_logprobs(tokenizer_, token));
    choice.stops.feed(choice.decoder.push(token.token), choice.answer.text);
    send_new(choice, sink);
    return !stopped(index);
  }

  bool stopped(int choice) const override { return choices_[static_cast<size_t>(choice)].stops.found() != nullptr; }

  void end(int index, const RequestSummary& summary, EventSink sink) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    CompletionsAnswer& answer = choice.answer;
    if (!stopped(index)) {
      choice.stops.feed(choice.decoder.finish(), answer.text);
      choice.stops.finish(answer.text);
    }
    answer.prompt.cached_tokens = summary.cached_tokens;
    answer.end = summary.reason == EndReason::kLength && !stopped(index) ? AnswerEnd::kLength : AnswerEnd::kStop;
    send_new(choice, sink);
    sink({}, completions_last_chunk(answer, false));
    if (--open_choices_ > 0) return;
    if (include_usage_) sink({}, completions_usage_chunk(answers()));
    sink({}, "[DONE]");
  }

  std::string object() const override { return completions_object(answers()); }

 private:
  struct Choice {
    Choice(CompletionsAnswer begun, const Tokenizer& tokenizer, std::vector<std::string> stop)
        : answer(std::move(begun)), decoder(tokenizer), stops(std::move(stop)) {}

    CompletionsAnswer answer;
    StreamDecoder decoder;
    StopStrings stops;
    size_t sent_text = 0;
    size_t sent_tokens = 0;
  };

  // What has come since the last chunk.  Tokens without text wait for the text.
  static void send_new(Choice& choice, EventSink sink) {
    const CompletionsAnswer& answer = choice.answer;
    if (answer.text.size() == choice.sent_text) return;
    sink({}, completions_chunk(answer, choice.sent_text, choice.sent_tokens));
    choice.sent_text = answer.text.size();
    choice.sent_tokens = answer.logprobs.size();
  }

  std::vector<const CompletionsAnswer*> answers() const {
    std::vector<const CompletionsAnswer*> all;
    for (const Choice& choice : choices_) all.push_back(&choice.answer);
    return all;
  }

  const Tokenizer& tokenizer_;
  AnswerEnds ends_;
  bool prompt_logprobs_, include_usage_;
  std::vector<int32_t> echoed_;  // tokens of the prompt that the answer begins with
  size_t begins_at_ = 0;
  std::vector<Choice> choices_;
  uint32_t open_choices_;
};

}  // namespace

std::unique_ptr<RequestAnswer> make_completion_answer(const CompletionsRequest& request, AnswerIdentity identity,
                                                      std::span<const int32_t> prompt, size_t begins_at,
                                                      const Tokenizer& tokenizer, AnswerEnds ends) {
  return std::make_unique<CompletionAnswer>(request, identity, prompt, begins_at, tokenizer, std::move(ends));
}

}  // namespace deepinfer::serving
