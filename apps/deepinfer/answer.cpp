#include "answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/stream_decoder.h"

namespace deepinfer::cli {
namespace {

// Collects the events of the parser and hands text on.
class Collector {
 public:
  Collector(Answer& answer, FunctionRef<bool(const AnswerPiece&)> on_piece) : answer_(answer), on_piece_(on_piece) {}

  void operator()(const OutputEvent& event) {
    switch (event.kind) {
      case OutputEvent::Kind::kReasoning:
        answer_.reasoning += event.text;
        show(AnswerPiece::Kind::kReasoning, event.text);
        break;
      case OutputEvent::Kind::kContent:
        answer_.content += event.text;
        show(AnswerPiece::Kind::kContent, event.text);
        break;
      case OutputEvent::Kind::kToolCallBegin:
      case OutputEvent::Kind::kToolCallEnd:
        break;
      case OutputEvent::Kind::kToolCall:
        answer_.tool_calls.push_back({fmt::format("call_{}", event.call), std::string(event.text), ""});
        break;
      case OutputEvent::Kind::kToolArguments:
        answer_.tool_calls.back().arguments += event.text;
        break;
    }
  }

  bool wanted() const { return wanted_; }

 private:
  void show(AnswerPiece::Kind kind, std::string_view text) {
    if (wanted_ && !text.empty()) wanted_ = on_piece_({kind, text});
  }

  Answer& answer_;
  FunctionRef<bool(const AnswerPiece&)> on_piece_;
  bool wanted_ = true;
};

}  // namespace

Result<Answer> generate_answer(Generator& generator, const Tokenizer& tokenizer, const AnswerRequest& request,
                               FunctionRef<bool(const AnswerPiece&)> on_piece) {
  Answer answer;
  OutputParser parser(request.parser);
  StreamDecoder decoder(tokenizer);
  Collector collector(answer, on_piece);
  bool stopped = false;  // a stop string matched
  bool ended = false;    // a stop token came
  const auto is_one_of = [](std::span<const int32_t> tokens, int32_t token) {
    return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
  };
  // Takes the tokens up to the one that ends the answer.  A step may have decided more: they are not part of it, or its
  // length would depend on the drafts.
  const auto on_tokens = [&](std::span<const GeneratedToken> tokens) -> Taken {
    size_t taken = 0;
    for (const GeneratedToken& token : tokens) {
      ++taken;
      if (is_one_of(request.params.stop_tokens, token.token)) {
        ended = true;
        break;
      }
      if (is_one_of(request.hidden_tokens, token.token)) continue;
      const std::string text = decoder.push(token.token);
      if (!text.empty() && !parser.push(text, collector)) {
        stopped = true;
        break;
      }
      // Counted while nothing but reasoning has come: the end mark itself is a token of the reasoning.
      if (request.parser.start == OutputStart::kReasoning && answer.content.empty() && answer.tool_calls.empty())
        ++answer.reasoning_tokens;
      if (!collector.wanted()) break;
    }
    return !stopped && !ended && collector.wanted() ? Taken(true) : Taken::last(taken);
  };
  const GrammarSpec* const grammar = request.grammar ? &*request.grammar : nullptr;
  DI_ASSIGN_OR_RETURN(answer.generation, generator.generate(request.prompt, request.params, grammar, on_tokens));
  if (!stopped) {
    const std::string rest = decoder.finish();
    if (!rest.empty()) stopped = !parser.push(rest, collector);
    if (!stopped) parser.finish(collector);
  }
  if (stopped || parser.matched_stop() >= 0) {
    answer.finish_reason = "stop";
  } else if (ended || answer.generation.finish == FinishReason::kStop) {
    answer.finish_reason = answer.tool_calls.empty() ? "stop" : "tool_calls";
  } else {
    answer.finish_reason = answer.generation.finish == FinishReason::kLength ? "length" : "cancelled";
  }
  return answer;
}

}  // namespace deepinfer::cli
