// Input items of a Responses request: messages, calls with their results, reasoning.  Inside text/protocol only.
#pragma once

#include <vector>

#include "text/conversation.h"
#include "text/protocol/inference_request.h"
#include "text/protocol/responses_request.h"
#include "text/protocol/tool_declarations.h"

namespace deepinfer {

struct ResponsesItems {
  std::vector<Message> messages;
  std::vector<DeclaredTool> late_tools;  // found by tool searches; the messages refer to them by their late_tools
};

ResponsesItems read_responses_items(const Json& items, const ProtocolOptions& options, ResponsesRequest& request);

}  // namespace deepinfer
