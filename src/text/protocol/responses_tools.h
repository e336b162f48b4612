// Tools of a Responses request and of its tool_search_output items.  Inside text/protocol only.
#pragma once

#include <string>
#include <vector>

#include "text/protocol/inference_request.h"
#include "text/protocol/request_fields.h"
#include "text/protocol/responses_request.h"
#include "text/protocol/tool_declarations.h"

namespace deepinfer {

struct ResponsesTools {
  std::vector<DeclaredTool> declared;
  Json echo = Json::array();  // as answers repeat them: known fields only, absent ones null
};

// `field` names the list in errors ("tools").  Namespaced and custom tools are noted in `request`.
ResponsesTools read_responses_tools(const Json& list, const std::string& field, const ProtocolOptions& options,
                                    ResponsesRequest& request);

// The name of a namespaced tool in the prompt.
std::string namespaced(const std::string& space, const std::string& name);

}  // namespace deepinfer
