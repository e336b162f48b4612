// Reads the body of a Chat Completions request.  Called by the server; a pure function of its arguments.
#pragma once

#include <string_view>

#include "text/protocol/inference_request.h"
#include "text/protocol/request_error.h"

namespace deepinfer {

RequestOr<InferenceRequest> parse_chat_completions(std::string_view body, const ProtocolOptions& options = {});

}  // namespace deepinfer
