#include "text/protocol/tool_declarations.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "text/schema_check.h"
#include "text/strict_schema.h"

namespace deepinfer {
namespace {

Json or_fail(std::variant<Json, StrictError> normal, std::string_view prefix) {
  if (auto* error = std::get_if<StrictError>(&normal)) {
    fail_request(error->about_shape ? std::string(prefix) + error->message : std::move(error->message));
  }
  return std::get<Json>(std::move(normal));
}

size_t characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string constraint_schema(const std::vector<DeclaredTool>& tools) {
  Json list = Json::array();
  for (const DeclaredTool& tool : tools) {
    Json function = Json::object();
    function["name"] = tool.name;
    function["description"] = tool.description ? Json(*tool.description) : Json(nullptr);
    function["parameters"] = tool.parameters;
    function["strict"] = tool.strict ? Json(*tool.strict) : Json(nullptr);
    Json entry = Json::object();
    entry["type"] = "function";
    entry["function"] = std::move(function);
    if (tool.late) entry["defer_loading"] = true;
    list.push_back(std::move(entry));
  }
  return dump_compact(list);
}

// Late tools are shown only when tools are shown at all and the choice left them in `tools`.
void drop_hidden_late_tools(const std::vector<DeclaredTool>& tools, Conversation& conversation) {
  std::unordered_set<std::string_view> shown;
  if (conversation.tools_shown()) {
    for (const DeclaredTool& tool : tools) shown.insert(tool.name);
  }
  std::erase_if(conversation.messages, [&](Message& message) {
    const size_t hidden =
        std::erase_if(message.late_tools, [&](const ToolDefinition& tool) { return !shown.contains(tool.name); });
    // A message that existed only to show them goes too.
    return hidden > 0 && message.late_tools.empty() && message.content.empty() && message.images.empty();
  });
}

}  // namespace

void check_tool_name(const std::string& name, const std::string& field) {
  constexpr size_t kMaxLength = 128;
  if (name.empty()) {
    fail_request("Invalid '" + field +
                 "': empty string. Expected a string with minimum length 1, but got an empty string instead.");
  }
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  if (!plain) {
    fail_request("Invalid '" + field +
                 "': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.");
  }
  if (const size_t length = characters(name); length > kMaxLength) {
    fail_request("Invalid '" + field + "': string too long. Expected a string with maximum length " +
                 std::to_string(kMaxLength) + ", but got a string with length " + std::to_string(length) + " instead.");
  }
}

Json check_parameters(const std::string& function, const Json& schema, bool strict) {
  Json parameters = schema;
  if (strict) {
    parameters =
        or_fail(normalize_strict_schema(schema, StrictUse::kToolParameters), "Invalid tool parameters schema : ");
  }
  const std::string prefix = "Invalid schema for function '" + function + "': ";
  if (const Status status = check_schema(parameters); !status.ok()) fail_request(prefix + status.message());
  const auto type = parameters.is_object() ? parameters.find("type") : parameters.end();
  const bool given = parameters.is_object() && type != parameters.end();
  if (!given || *type != "object") {
    fail_request(prefix + "schema must be a JSON Schema of 'type: \"object\"', got 'type: " +
                 (given ? dump_compact(*type) : "null") + "'.");
  }
  return parameters;
}

DeclaredTool read_function(const Fields& fields, const std::string& field) {
  DeclaredTool tool;
  tool.name = fields.required_string("name");
  tool.description = fields.string("description");
  tool.strict = fields.boolean("strict");
  check_tool_name(tool.name, field + ".name");
  if (const Json* parameters = fields.find("parameters")) {
    tool.parameters = check_parameters(tool.name, *parameters, tool.strict.value_or(false));
  }
  return tool;
}

void check_unique_names(const std::vector<DeclaredTool>& tools) {
  std::unordered_set<std::string_view> names;
  for (const DeclaredTool& tool : tools) {
    if (!names.insert(tool.name).second) fail_request("Tool names must be unique.");
  }
}

void check_strictness(const std::vector<DeclaredTool>& tools, const ResponseFormat& format) {
  const auto strict = std::count_if(tools.begin(), tools.end(), [](const DeclaredTool& t) { return t.strict == true; });
  if (strict == 0) return;
  if (strict != static_cast<std::ptrdiff_t>(tools.size())) {
    fail_request("Cannot use strict tool with non-strict tool in the same request");
  }
  if (format.kind != ResponseFormat::Kind::kText) fail_request("response_format should not be used with tools");
}

ToolDefinition to_definition(const DeclaredTool& tool) {
  return {tool.name, tool.description.value_or(""), dump_python(tool.parameters)};
}

void apply_tools(std::vector<DeclaredTool> tools, const ChosenTools& chosen, Profile profile,
                 InferenceRequest& request) {
  Conversation& conversation = request.conversation;
  if (tools.empty()) return;
  conversation.tool_choice = chosen.choice;
  if (chosen.name) {
    const auto found =
        std::find_if(tools.begin(), tools.end(), [&](const DeclaredTool& tool) { return tool.name == *chosen.name; });
    if (found == tools.end()) {
      fail_request("Invalid value for 'tool_call': no function named '" + *chosen.name +
                   "' was specified in the 'tools' parameter.");
    }
    DeclaredTool only = std::move(*found);
    tools.clear();
    tools.push_back(std::move(only));
    conversation.tool_choice = ToolChoice::kRequired;
  }
  const bool forced = conversation.tool_choice == ToolChoice::kRequired;
  if (forced && conversation.thinking && profile == Profile::kDeepSeek)
    fail_request("Thinking mode does not support this tool_choice");
  for (const DeclaredTool& tool : tools) {
    if (!tool.late) conversation.tools.push_back(to_definition(tool));
  }
  drop_hidden_late_tools(tools, conversation);
  if (conversation.tools_shown()) {
    request.content_constraint = std::move(request.constraint);
    const bool required = forced || (chosen.some_call && profile == Profile::kExtended);
    request.constraint =
        OutputConstraint{required ? OutputConstraint::Kind::kToolCallRequired : OutputConstraint::Kind::kToolCall,
                         constraint_schema(tools)};
  }
}

Json check_response_schema(const Json& schema, bool strict) {
  const std::string_view prefix = "Invalid json schema: ";
  if (const Status status = check_schema(schema); !status.ok()) fail_request(std::string(prefix) + status.message());
  return strict ? or_fail(normalize_strict_schema(schema, StrictUse::kResponse), prefix) : schema;
}

}  // namespace deepinfer
