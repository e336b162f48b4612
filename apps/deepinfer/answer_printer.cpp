#include "answer_printer.h"

#include <fmt/format.h>

#include "json_output.h"
#include "terminal.h"

namespace deepinfer::cli {

bool AnswerPrinter::print(const AnswerPiece& piece) {
  if (piece.kind == AnswerPiece::Kind::kContent) {
    end_reasoning();
    return out_.write(piece.text);
  }
  if (reasoning_to_output_) {
    if (!reasoning_) out_.write("<think>");
    reasoning_ = true;
    return out_.write(piece.text);
  }
  reasoning_ = true;
  last_reasoning_byte_ = piece.text.back();
  if (standard_error_has_colour()) {
    write_standard_error(fmt::format("\033[2m{}\033[0m", piece.text));
  } else {
    write_standard_error(piece.text);
  }
  return true;
}

void AnswerPrinter::end_reasoning() {
  if (!reasoning_) return;
  reasoning_ = false;
  if (reasoning_to_output_) {
    out_.write("</think>\n\n");
  } else if (last_reasoning_byte_ != '\n') {
    write_standard_error("\n");
  }
}

void AnswerPrinter::finish(const Answer& answer) {
  end_reasoning();
  if (out_.last_byte() != '\n') out_.write("\n");
  for (const ToolCall& call : answer.tool_calls)
    out_.write(json_line(Json{{"tool_call", {{"name", call.name}, {"arguments", call.arguments}}}}));
}

std::string statistics_line(const Answer& answer, uint64_t seed, double load_seconds) {
  const GenerationResult& run = answer.generation;
  const auto per_second = [](int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
  };
  const auto tokens = static_cast<int64_t>(run.tokens.size());
  std::string line =
      fmt::format("[seed {}; load {:.0f} ms; prompt {} tokens", seed, 1e3 * load_seconds, run.prompt_tokens);
  if (run.disk_tokens > 0) line += fmt::format(" ({} prompt tokens from disk)", run.disk_tokens);
  if (const int64_t kept = run.reused_tokens - run.disk_tokens; kept > 0)
    line += fmt::format(" ({} kept from before)", kept);
  line += fmt::format(" in {:.0f} ms, {:.0f} tokens/s; answer {} tokens in {:.0f} ms, {:.0f} tokens/s",
                      1e3 * run.prefill_seconds, per_second(run.prompt_tokens - run.reused_tokens, run.prefill_seconds),
                      tokens, 1e3 * run.decode_seconds, per_second(tokens, run.decode_seconds));
  if (run.drafted > 0)
    line +=
        fmt::format("; drafts {} of {} accepted in {} rounds, {:.2f} tokens a round", run.accepted, run.drafted,
                    run.rounds, run.rounds > 0 ? static_cast<double>(tokens) / static_cast<double>(run.rounds) : 0.0);
  return line + fmt::format("; end: {}]", answer.finish_reason);
}

}  // namespace deepinfer::cli
