// SwapCost: whether the records that a preempted sequence has lost are sooner read from a tier than computed again.
// Learns from the steps that were run and from the reads that were waited for; as long as either is unknown a read
// pays. Used by TieredPrefixes.
#pragma once

#include <cstdint>

#include "scheduling/request.h"

namespace deepinfer {

class SwapCost {
 public:
  // A step of so many rows.  Steps with few rows say nothing about a prompt's.
  void observe_step(int64_t prefill_rows, int64_t decode_rows, Time duration);
  // A read that brought so many bytes, from question to use.
  void observe_read(int64_t bytes, Time waited);

  // One that would not pay is made all the same now and then, so that a tier that has become faster is noticed.
  bool pays(int64_t bytes, int64_t tokens);

 private:
  static constexpr int64_t kLeastRows = 16;
  static constexpr int kDeclined = 16;      // then one is made
  static constexpr double kNewest = 0.125;  // weight in a mean

  double row_seconds_ = 0, byte_seconds_ = 0;  // 0: unknown
  int declined_ = 0;
};

}  // namespace deepinfer
