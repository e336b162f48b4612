// The `messages` of Chat Completions.  Used by chat_completions_request.cpp; refuses by fail_request
// (request_fields.h).
#pragma once

#include <vector>

#include "text/conversation.h"
#include "text/json_text.h"
#include "text/protocol/chat_completions_request.h"

namespace deepinfer {

struct ChatMessages {
  std::vector<Message> list;       // without empty system messages; each call is answered, directly behind its message
  bool missing_reasoning = false;  // an assistant message has calls, no reasoning, and ids that do not say it was empty
};

ChatMessages read_chat_messages(const Json& list, const ProtocolOptions& options);

}  // namespace deepinfer
