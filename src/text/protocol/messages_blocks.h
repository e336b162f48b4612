// The messages of a Messages request: content blocks, tool uses and their results.  Inside text/protocol only.
#pragma once

#include <vector>

#include "text/conversation.h"
#include "text/protocol/inference_request.h"
#include "text/protocol/tool_declarations.h"

namespace deepinfer {

struct MessagesConversation {
  std::vector<Message> messages;
  // An assistant message has tool uses, no thinking block, and ids that do not say that the thinking was empty.
  bool missing_thinking = false;
};

// `tools` are the declared ones: blocks may refer to those that are loaded late.
MessagesConversation read_messages_blocks(const Json& list, const std::vector<DeclaredTool>& tools,
                                          const ProtocolOptions& options);

}  // namespace deepinfer
