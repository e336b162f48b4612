// TokenChoices: the experts and the cached rows that tokens of a sequence chose on their way through the network, for
// requests that asked for them (EngineRequest::capture_routed_experts, capture_selected_indices).
#pragma once

#include <cstdint>
#include <vector>

namespace deepinfer {

// Of the tokens at positions [first, first + tokens), one after the other.  How many choices a token has is in
// ModelInfo::choices, their meaning in models/choice_sink.h.
struct TokenChoices {
  int64_t first = 0;
  int64_t tokens = 0;
  std::vector<uint16_t> experts;  // [tokens, routers, experts]; empty unless asked for
  std::vector<int32_t> selected;  // [tokens, indexers, selected]; likewise
};

}  // namespace deepinfer
