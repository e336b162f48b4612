// Fields that the three protocols share: model, thinking and effort, sampling parameters.  Inside text/protocol only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/protocol/inference_request.h"
#include "text/protocol/request_fields.h"

namespace deepinfer {

std::string read_model(const Fields& request, const ProtocolOptions& options);

enum class ThinkingSwitch { kDefault, kOn, kOff };
// The `thinking` object of Chat Completions and Messages.
ThinkingSwitch read_thinking(const Fields& request);

// Sets thinking and effort of the conversation from the switch and the effort's value (null pointer: absent).
void apply_thinking(ThinkingSwitch thinking, const Json* effort, const ProtocolOptions& options,
                    Conversation& conversation);

// Range checks, then the effective values; `conversation.thinking` must be known.
void apply_temperature_and_top_p(const Fields& request, Profile profile, InferenceRequest& out);

enum class TooManyTokens { kRefuse, kLower };
void apply_max_tokens(std::optional<uint32_t> given, TooManyTokens rule, const ProtocolOptions& options,
                      InferenceRequest& out);

// [0, 2^63)
std::optional<uint64_t> read_seed(const Fields& request);

void check_stop_list(const std::vector<std::string>& stop);
void apply_top_logprobs(const Fields& request, InferenceRequest& out);

}  // namespace deepinfer
