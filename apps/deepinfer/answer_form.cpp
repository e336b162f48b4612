#include "answer_form.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>
#include <variant>

#include "text/json_text.h"
#include "text/protocol/chat_completions_request.h"
#include "text_input.h"

namespace deepinfer::cli {
namespace {

// The protocol's own reader knows every rule of tools and formats: it gets a request around them.
class FormRequest {
 public:
  explicit FormRequest(bool thinking)
      : body_{{"model", "local"}, {"messages", Json::array({{{"role", "user"}, {"content", ""}}})}} {
    options_.profile = Profile::kExtended;  // calls may be required of a thinking model
    options_.models = {"local"};
    options_.default_thinking = thinking;
  }

  // Adds a field that `source` asked for, and checks the request as it is now.
  Status add(const char* field, Json value, const std::string& source) {
    body_[field] = std::move(value);
    return read().status().with_context(source);
  }
  Result<InferenceRequest> read() const {
    RequestOr<InferenceRequest> request = parse_chat_completions(body_.dump(), options_);
    if (const auto* error = std::get_if<RequestError>(&request)) return invalid_argument(error->message);
    return std::move(std::get<InferenceRequest>(request));
  }

 private:
  ProtocolOptions options_;
  Json body_;
};

Result<Json> read_json_file(const std::string& file, const std::string& source) {
  DI_ASSIGN_OR_RETURN(const std::string text, read_bytes(file));
  Result<Json> value = parse_json(text);
  if (!value.ok()) return value.status().with_context(source);
  return value;
}

Json tool_choice(const std::string& name) {
  if (name == "auto" || name == "none" || name == "required") return name;
  return {{"type", "function"}, {"function", {{"name", name}}}};
}

}  // namespace

void add_answer_form_options(CLI::App& command, AnswerFormOptions& options, CLI::Option& raw) {
  constexpr const char* kGroup = "Form of the answer";
  auto* tools = command
                    .add_option("--tools", options.tools,
                                "JSON file with an array of tools the model may call (as in Chat Completions); calls "
                                "are of these tools, and fit the schemas of those with \"strict\": true")
                    ->type_name("FILE")
                    ->group(kGroup);
  command
      .add_option("--tool-choice", options.tool_choice,
                  "auto (default): the model calls or answers; required: it calls; a tool's name: it calls this one; "
                  "none: no tools are shown")
      ->type_name("CHOICE")
      ->needs(tools)
      ->group(kGroup);
  auto* schema = command
                     .add_option("--json-schema", options.json_schema,
                                 "JSON file with a schema that the answer fits, behind the reasoning")
                     ->type_name("FILE")
                     ->group(kGroup);
  auto* regex = command
                    .add_option("--regex", options.regex,
                                "regular expression that the whole answer matches, behind the reasoning")
                    ->type_name("EXPRESSION")
                    ->group(kGroup);
  schema->excludes(regex);
  tools->excludes(&raw);
}

Result<InferenceRequest> read_answer_form(const AnswerFormOptions& options, bool thinking) {
  FormRequest request(thinking);
  if (options.tools) {
    const std::string source = "--tools " + *options.tools;
    DI_ASSIGN_OR_RETURN(Json tools, read_json_file(*options.tools, source));
    if (!tools.is_array()) return invalid_argument(source + ": not a JSON array of tools");
    DI_RETURN_IF_ERROR(request.add("tools", std::move(tools), source));
  }
  if (options.tool_choice) {
    DI_RETURN_IF_ERROR(
        request.add("tool_choice", tool_choice(*options.tool_choice), "--tool-choice " + *options.tool_choice));
  }
  if (options.json_schema) {
    const std::string source = "--json-schema " + *options.json_schema;
    DI_ASSIGN_OR_RETURN(Json schema, read_json_file(*options.json_schema, source));
    Json format{{"type", "json_schema"}, {"json_schema", {{"name", "answer"}, {"schema", std::move(schema)}}}};
    DI_RETURN_IF_ERROR(request.add("response_format", std::move(format), source));
  }
  if (options.regex) {
    DI_RETURN_IF_ERROR(check_utf8(*options.regex, "--regex"));
    DI_RETURN_IF_ERROR(
        request.add("response_format", {{"type", "regex"}, {"regex", *options.regex}}, "--regex " + *options.regex));
  }
  return request.read();
}

}  // namespace deepinfer::cli
