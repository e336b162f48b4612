// What `run` holds an answer to: tools that it may or must call, and a form of its content, as in Chat Completions.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "text/protocol/inference_request.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace deepinfer::cli {

struct AnswerFormOptions {
  std::optional<std::string> tools;        // file: a JSON array
  std::optional<std::string> tool_choice;  // auto, none, required, or a tool's name
  std::optional<std::string> json_schema;  // file
  std::optional<std::string> regex;
};

// raw: the option beside which no tools are offered.
void add_answer_form_options(CLI::App& command, AnswerFormOptions& options, CLI::Option& raw);

// The options as a request without messages: its tools, its response format, and what output_grammar makes of both.
// Errors name the option, and the place in its file.
Result<InferenceRequest> read_answer_form(const AnswerFormOptions& options, bool thinking);

}  // namespace deepinfer::cli
