// What every request must satisfy before it is accepted, whoever runs it.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "engine/engine.h"
#include "models/model.h"

namespace deepinfer {

// A message naming the field, its value and the allowed range: parameters, prompt tokens, and a prompt that leaves room
// for an answer in max_context tokens.
Status check_request(std::span<const int32_t> prompt, const GenerationParams& params, const ModelInfo& model,
                     int64_t max_context);

// What a prompt's tokens chose is kept until the first token of the answer.
inline constexpr int64_t kMostPromptChoiceBytes = int64_t{1} << 30;

// The fields of EngineRequest beyond those.
Status check_rules(const EngineRequest& request, const ModelInfo& model);

}  // namespace deepinfer
