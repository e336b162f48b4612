#include "serving/requests/completion_answer.h"

#include <limits>
#include <optional>
#include <utility>

#include "serving/requests/token_logprobs.h"
#include "text/stop_strings.h"
#include "text/stream_decoder.h"

namespace deepinfer::serving {
namespace {

class CompletionAnswer final : public RequestAnswer {
 public:
  CompletionAnswer(const CompletionsRequest& request, const AnswerIdentity& identity,
                   std::span<const CompletionPrompt> prompts, const Tokenizer& tokenizer, AnswerEnds ends,
                   bool draft_usage)
      : tokenizer_(tokenizer),
        ends_(std::move(ends)),
        prompt_logprobs_(request.generation.prompt_logprobs.has_value()),
        include_usage_(request.include_usage),
        draft_usage_(draft_usage),
        open_choices_(prompts.size() * request.generation.n) {
    for (const CompletionPrompt& prompt : prompts) {
      std::optional<int32_t> first;
      std::string text;
      if (request.echo) {
        const auto own = std::span(prompt.tokens).subspan(prompt.begins_at);
        text = tokenizer.decode(own);
        if (prompt.begins_at == 0) first = own.front();
      }
      for (uint32_t i = 0; i < request.generation.n; ++i) {
        CompletionsAnswer answer;
        answer.identity = identity;
        answer.identity.choice = static_cast<int>(choices_.size());
        // The prompt is counted once.
        answer.prompt.prompt_tokens = i == 0 ? static_cast<int64_t>(prompt.tokens.size()) : 0;
        answer.with_logprobs = request.logprobs.has_value();
        answer.text = text;
        choices_.emplace_back(std::move(answer), tokenizer, request.stop);
        choices_.back().counts_prompt = i == 0;
        choices_.back().echoes = request.echo;
        choices_.back().first_echoed = first;
      }
    }
  }

  void open(int64_t, EventSink sink) override {
    for (Choice& choice : choices_) {
      if (!choice.answer.with_logprobs) send_new(choice, sink);  // else with the log-probabilities of the prompt
    }
  }

  void take_prompt_logprobs(int index, std::span<const GeneratedToken> tokens) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    CompletionsAnswer& answer = choice.answer;
    if (prompt_logprobs_ && index == 0) answer.prompt_logprobs = prompt_logprobs(tokenizer_, tokens);
    if (!choice.echoes || !answer.with_logprobs) return;
    // The engine has numbers of all tokens but the very first one.
    if (choice.first_echoed) {
      const float none = std::numeric_limits<float>::quiet_NaN();
      answer.logprobs.push_back({std::string(tokenizer_.bytes(*choice.first_echoed)), none, {}});
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
    if (choice.counts_prompt) answer.prompt.cached_tokens = summary.cached_tokens;
    if (draft_usage_) answer.drafts = DraftUsage{summary.drafted, summary.accepted};
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
    bool counts_prompt = false;           // the first one of its prompt
    bool echoes = false;                  // the text begins with the prompt
    std::optional<int32_t> first_echoed;  // of the prompt's tokens, where its very first one is repeated
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
  bool prompt_logprobs_, include_usage_, draft_usage_;
  std::vector<Choice> choices_;
  size_t open_choices_;
};

}  // namespace

std::unique_ptr<RequestAnswer> make_completion_answer(const CompletionsRequest& request, AnswerIdentity identity,
                                                      std::span<const CompletionPrompt> prompts,
                                                      const Tokenizer& tokenizer, AnswerEnds ends, bool draft_usage) {
  return std::make_unique<CompletionAnswer>(request, identity, prompts, tokenizer, std::move(ends), draft_usage);
}

}  // namespace deepinfer::serving
