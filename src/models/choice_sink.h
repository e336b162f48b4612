// ChoiceSink: hears which experts and which cached rows the rows of a step chose, for requests that report them.  Given
// to Model::forward with a sequence; without one nothing is computed for it.
#pragma once

#include <cstdint>
#include <span>

namespace deepinfer {

// How many choices a token makes on its way through the network; draft stages do not count.
struct ChoiceCounts {
  int64_t routers = 0;   // layers with routed experts
  int64_t experts = 0;   // chosen by each, of ids below 2^16
  int64_t indexers = 0;  // layers that choose cached rows; those between them use the choice of the one before
  int64_t selected = 0;  // rows chosen by each, at most
};

class ChoiceSink {
 public:
  virtual ~ChoiceSink() = default;
  // The token at `position` in router number `router`: experts in the order of choice, the best first.
  virtual void routed(int64_t position, int64_t router, std::span<const int32_t> experts) = 0;
  // In indexer number `indexer`: compressed rows of its KV source in ascending order, then -1 where fewer are visible.
  virtual void selected(int64_t position, int64_t indexer, std::span<const int32_t> rows) = 0;
};

}  // namespace deepinfer
