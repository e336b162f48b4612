// One answer: runs a prompt, turns tokens into text as they come, and splits the text into reasoning, content and tool
// calls.  `run` and `chat` show the pieces; neither the library nor this file prints anything.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"
#include "engine/generator.h"
#include "text/conversation.h"
#include "text/output_parser.h"
#include "text/tokenizer.h"

namespace deepinfer::cli {

struct Answer {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> tool_calls;
  std::string finish_reason;     // stop, length, tool_calls, cancelled
  int64_t reasoning_tokens = 0;  // tokens before the end of the reasoning
  GenerationResult generation;
};

// A piece of text as it is decided.  Returning false ends the answer (nobody reads it any more).
struct AnswerPiece {
  enum class Kind { kReasoning, kContent };
  Kind kind;
  std::string_view text;  // UTF-8, never part of a character
};

struct AnswerRequest {
  std::span<const int32_t> prompt;
  GenerationParams params;
  OutputParserOptions parser;
  std::optional<GrammarSpec> grammar = {};      // that derives the answer, reasoning included
  std::span<const int32_t> hidden_tokens = {};  // that have no text in the answer: end tokens that do not end it
};

Result<Answer> generate_answer(Generator& generator, const Tokenizer& tokenizer, const AnswerRequest& request,
                               FunctionRef<bool(const AnswerPiece&)> on_piece);

}  // namespace deepinfer::cli
