#include "tool_file.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "text/json_text.h"
#include "text/protocol/chat_completions_request.h"
#include "text_input.h"

namespace deepinfer::cli {

Result<std::vector<ToolDefinition>> read_tools(const std::string& file) {
  DI_ASSIGN_OR_RETURN(const std::string text, read_bytes(file));
  Result<Json> tools = parse_json(text);
  if (!tools.ok()) return invalid_argument(fmt::format("--tools {}: {}", file, tools.status().message()));
  if (!tools->is_array()) return invalid_argument(fmt::format("--tools {}: not a JSON array of tools", file));
  // The protocol's own reader knows every rule of a tool list: hand it a request around the list.
  const Json body{{"model", "local"},
                  {"messages", Json::array({{{"role", "user"}, {"content", ""}}})},
                  {"tools", std::move(*tools)}};
  ProtocolOptions options;
  options.models = {"local"};
  RequestOr<InferenceRequest> request = parse_chat_completions(body.dump(), options);
  if (const auto* error = std::get_if<RequestError>(&request))
    return invalid_argument(fmt::format("--tools {}: {}", file, error->message));
  return std::move(std::get<InferenceRequest>(request).conversation.tools);
}

}  // namespace deepinfer::cli
