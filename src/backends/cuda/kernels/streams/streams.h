// The residual stream and its hyper-connections, ops/hyper_connection.h.  Operands as there, in device memory.
#pragma once

#include <cstdint>

#include "backends/cuda/launch/stream.h"
#include "base/status.h"
#include "ops/hyper_connection.h"

namespace deepinfer::cuda {

// Each of the 24 products and the sum of squares is cut every kMixColumns columns; the parts are added in ascending
// order.
constexpr int64_t kMixColumns = 256;
constexpr int64_t kMixSums = 2 * kHyperCopies + kHyperCopies * kHyperCopies + 1;
inline int64_t mix_part_floats(int64_t rows, int64_t columns) {
  return rows * ((columns + kMixColumns - 1) / kMixColumns) * kMixSums;
}
constexpr int64_t kMixCounters = 64;
struct MixScratch {
  float* parts = nullptr;       // mix_part_floats(rows, columns of streams)
  int32_t* finished = nullptr;  // kMixCounters, 0 before and after
};

Status any_hyper_connection_mix(const HyperConnectionMix& op, const MixScratch& scratch, Stream stream);
Status any_hyper_connection_collapse(const HyperConnectionCollapse& op, Stream stream);
Status any_hyper_connection_expand(const HyperConnectionExpand& op, Stream stream);
// Few rows with a next input, on SM90; the same bits.
bool sm90_hyper_connection_expand_takes(const HyperConnectionExpand& op);
Status sm90_hyper_connection_expand(const HyperConnectionExpand& op, Stream stream);
Status any_hyper_connection_mean(const HyperConnectionMean& op, Stream stream);

}  // namespace deepinfer::cuda
