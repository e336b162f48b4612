// AnswerEnds: which tokens end an answer, and which of those that the model ends with are passed over.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "text/protocol/generation_fields.h"

namespace deepinfer::serving {

struct AnswerEnds {
  std::vector<int32_t> stops;    // of GenerationParams::stop_tokens
  std::vector<int32_t> skipped;  // end tokens that do not end the answer: they have no text

  AnswerEnds(std::vector<int32_t> end_tokens, const GenerationFields& fields) {
    (fields.ignore_eos ? skipped : stops) = std::move(end_tokens);
    stops.insert(stops.end(), fields.stop_token_ids.begin(), fields.stop_token_ids.end());
    std::sort(stops.begin(), stops.end());
    stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  }

  bool ends(int32_t token) const { return std::find(stops.begin(), stops.end(), token) != stops.end(); }
  bool skips(int32_t token) const { return std::find(skipped.begin(), skipped.end(), token) != skipped.end(); }
};

}  // namespace deepinfer::serving
