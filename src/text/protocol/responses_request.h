// Reads the body of a Responses request.  Called by the server; a pure function of its arguments.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_text.h"
#include "text/protocol/inference_request.h"
#include "text/protocol/request_error.h"

namespace deepinfer {

struct ResponsesRequest {
  InferenceRequest inference;
  // The request's own values of the fields that a response repeats: instructions, reasoning, text, tools, ...
  Json echo = Json::object();
  // Tools whose calls are reported in another form than function_call with the prompt's name.
  struct NamespacedTool {
    std::string space;
    std::string name;
  };
  std::map<std::string, NamespacedTool> namespaced_tools;  // by the name in the prompt, "space::name"
  bool has_apply_patch = false;                            // calls of apply_patch are custom_tool_call items
};

RequestOr<ResponsesRequest> parse_responses(std::string_view body, const ProtocolOptions& options = {});

}  // namespace deepinfer
