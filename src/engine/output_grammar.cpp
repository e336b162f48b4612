#include "engine/output_grammar.h"

#include <string>

#include "text/json_text.h"
#include "text/prompt_template.h"

namespace deepinfer {
namespace {

using Kind = OutputConstraint::Kind;

// A response format as the grammar of content.
void set_content(const OutputConstraint& format, GrammarSpec& spec) {
  spec.text = format.schema;
  if (format.kind == Kind::kRegex) {
    spec.content = GrammarSpec::Content::kRegex;
    return;
  }
  spec.content = GrammarSpec::Content::kJsonSchema;
  if (!spec.text.empty()) return;
  spec.text = R"({"type":"object"})";  // json_object
  spec.strict = false;
}

// Of Chat Completions' list of tools, as tool_declarations.cpp writes it.
std::vector<CallableTool> callable_tools(const std::string& list) {
  std::vector<CallableTool> tools;
  for (const Json& entry : Json::parse(list)) {
    const Json& function = entry.at("function");
    CallableTool tool;
    tool.name = function.at("name").get<std::string>();
    tool.parameters = dump_compact(function.at("parameters"));
    tool.strict = function.at("strict") == Json(true);
    tools.push_back(std::move(tool));
  }
  return tools;
}

bool in_reasoning(OutputStart start) {
  return start == OutputStart::kReasoning || start == OutputStart::kReasoningContinued;
}

}  // namespace

Result<std::optional<GrammarSpec>> output_grammar(const InferenceRequest& request, OutputStart start,
                                                  const Tokenizer& tokenizer) {
  if (!request.constraint) return std::optional<GrammarSpec>();
  GrammarSpec spec;
  const OutputConstraint& wanted = *request.constraint;
  std::optional<int32_t> end;
  if (in_reasoning(start)) {
    end = tokenizer.added_id(token::kEndThink);
    if (!end)
      return Status(StatusCode::kUnsupported,
                    "the tokenizer has no token </think>, behind which the output could be held to a form");
  }
  if (wanted.kind == Kind::kToolCall || wanted.kind == Kind::kToolCallRequired) {
    spec.kind = GrammarSpec::Kind::kToolCalls;
    spec.tools = callable_tools(wanted.schema);
    spec.call_required = wanted.kind == Kind::kToolCallRequired;
    spec.reasoning_end = end;
    if (start == OutputStart::kTools) spec.markup.begin.clear();
    if (request.content_constraint && !spec.call_required) set_content(*request.content_constraint, spec);
    return std::optional(std::move(spec));
  }
  set_content(wanted, spec);
  spec.kind = spec.content == GrammarSpec::Content::kRegex ? GrammarSpec::Kind::kRegex : GrammarSpec::Kind::kJsonSchema;
  spec.content = GrammarSpec::Content::kFree;
  if (end) spec.trigger_token_ids = {*end};
  return std::optional(std::move(spec));
}

}  // namespace deepinfer
