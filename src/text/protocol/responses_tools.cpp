#include "text/protocol/responses_tools.h"

#include <unordered_set>
#include <utility>

#include "text/protocol/apply_patch_tool.h"

namespace deepinfer {
namespace {

Json or_null(const Json* value) {
  return value == nullptr ? Json(nullptr) : *value;
}

Json function_echo(const Fields& fields, const DeclaredTool& tool) {
  Json echo = Json::object();
  echo["type"] = "function";
  echo["name"] = tool.name;
  echo["description"] = or_null(fields.find("description"));
  echo["parameters"] = or_null(fields.find("parameters"));
  echo["strict"] = or_null(fields.find("strict"));
  if (const Json* defer = fields.find("defer_loading")) echo["defer_loading"] = *defer;
  return echo;
}

class ToolReader {
 public:
  ToolReader(const ProtocolOptions& options, ResponsesRequest& request) : options_(options), request_(request) {}

  void read(const Json& value, const std::string& field) {
    const Fields tool(value, "tool");
    const std::string& type = tool.required_string("type");
    if (type == "function") {
      tool.boolean("defer_loading");
      tools_.declared.push_back(read_function(tool, field));
      tools_.echo.push_back(function_echo(tool, tools_.declared.back()));
    } else if (type == "namespace") {
      read_namespace(tool, field);
    } else if (type == "custom") {
      read_custom(tool);
    } else if (type == "tool_search") {
      read_tool_search(tool, value);
    } else if (type.starts_with("web_search") && options_.responses_web_search == ProtocolOptions::WebSearch::kReject) {
      fail_request("Server tools are not supported");
    }
  }

  ResponsesTools take() { return std::move(tools_); }

 private:
  void read_namespace(const Fields& space, const std::string& field) {
    const std::string& name = space.required_string("name");
    const std::string description = space.string("description").value_or("");
    const Json& members = as_array(space.at("tools"), "tools");
    check_tool_name(name, field + ".name");
    Json echo = Json::object();
    echo["type"] = "namespace";
    echo["name"] = name;
    echo["description"] = or_null(space.find("description"));
    echo["tools"] = Json::array();
    std::unordered_set<std::string> names;
    for (size_t i = 0; i < members.size(); ++i) {
      const Fields member(members[i], "tool");
      Fields::one_of(member.required_string("type"), {"function"});
      DeclaredTool tool = read_function(member, field + ".tools[" + std::to_string(i) + "]");
      if (!names.insert(tool.name).second) fail_request("Tool names within a namespace must be unique.");
      echo["tools"].push_back(function_echo(member, tool));
      std::string full = namespaced(name, tool.name);
      request_.namespaced_tools[full] = {name, tool.name};
      tool.name = std::move(full);
      tool.description = description + "\n" + tool.description.value_or("");
      tools_.declared.push_back(std::move(tool));
    }
    tools_.echo.push_back(std::move(echo));
  }

  void read_custom(const Fields& tool) {
    const std::string& name = tool.required_string("name");
    if (name != kApplyPatchName) {
      fail_request("Unsupported custom tool: '" + name + "'. Only 'apply_patch' is supported.");
    }
    request_.has_apply_patch = true;
    DeclaredTool declared;
    declared.name = name;
    declared.description = std::string(kApplyPatchDescription);
    declared.parameters = Json::parse(kApplyPatchParameters);
    tools_.declared.push_back(std::move(declared));
    Json echo = Json::object();
    echo["type"] = "custom";
    echo["name"] = name;
    tools_.echo.push_back(std::move(echo));
  }

  void read_tool_search(const Fields& tool, const Json& value) {
    DeclaredTool declared;
    declared.name = "tool_search";
    declared.description = tool.string("description");
    if (const Json* parameters = tool.find("parameters")) {
      declared.parameters = check_parameters(declared.name, *parameters, false);
    }
    tools_.declared.push_back(std::move(declared));
    tools_.echo.push_back(value);
  }

  const ProtocolOptions& options_;
  ResponsesRequest& request_;
  ResponsesTools tools_;
};

}  // namespace

std::string namespaced(const std::string& space, const std::string& name) {
  return space + "::" + name;
}

ResponsesTools read_responses_tools(const Json& list, const std::string& field, const ProtocolOptions& options,
                                    ResponsesRequest& request) {
  ToolReader reader(options, request);
  for (size_t i = 0; i < list.size(); ++i) reader.read(list[i], field + "[" + std::to_string(i) + "]");
  return reader.take();
}

}  // namespace deepinfer
