// Tools as a request declares them: checks of names and schemas, strict normalisation, and the two forms in which they
// go on (prompt definition, output constraint).  Inside text/protocol only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/conversation.h"
#include "text/protocol/inference_request.h"
#include "text/protocol/request_fields.h"

namespace deepinfer {

struct DeclaredTool {
  std::string name;
  std::optional<std::string> description;
  Json parameters = Json::object();
  std::optional<bool> strict;
  bool late = false;  // shown by a later message, not in the tools block
};

// 1..128 characters of [a-zA-Z0-9_-]; `field` names it in errors ("tools[0].name").
void check_tool_name(const std::string& name, const std::string& field);

// Checks (and with `strict` normalises) the schema of a function's parameters; null is no schema.
Json check_parameters(const std::string& function, const Json& schema, bool strict);
// A function tool's name, description, parameters and strict; `field` names the tool in errors.
DeclaredTool read_function(const Fields& fields, const std::string& field);

void check_unique_names(const std::vector<DeclaredTool>& tools);
// Strict and other tools do not mix, and strict tools exclude a response format.
void check_strictness(const std::vector<DeclaredTool>& tools, const ResponseFormat& format);

ToolDefinition to_definition(const DeclaredTool& tool);

// What a request's tool_choice asks for.  A name means: only this tool, and it must be called.
struct ChosenTools {
  ToolChoice choice = ToolChoice::kAuto;
  std::optional<std::string> name;
  bool some_call = false;  // Profile::kExtended: at least one call is to be made, of which the prompt says nothing
};

// Applies the choice: fills tools and tool_choice of the conversation, drops the tools that are not chosen, refuses
// forced calls while thinking (Profile::kDeepSeek), and sets the output constraint for calls; one that was set for the
// content is kept beside it.
void apply_tools(std::vector<DeclaredTool> tools, const ChosenTools& chosen, Profile profile,
                 InferenceRequest& request);

// Checks a schema of a response format and returns what the output is held to (normalised when strict).
Json check_response_schema(const Json& schema, bool strict);

}  // namespace deepinfer
