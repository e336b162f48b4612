// The coefficients of hyper-connections.  A row's 24 dot products are cut into chunks of kMixChunk channels whose sums
// are added in order: the same order whether one thread does a row or many share its chunks and dot products.
#include <algorithm>

#include "backends/cpu/steps/row_tasks.h"
#include "backends/cpu/steps/steps.h"
#include "base/check.h"

namespace deepinfer::cpu {
namespace {

constexpr int64_t kFewChunks = 4;
constexpr int64_t kBlockRows = 16;  // rows that share a chunk of fn while it lies in the second-level cache

}  // namespace

Status Steps::prepare_mix(const OpsLimits& limits) {
  mix_chunks_ = (kHyperCopies * limits.hidden + kMixChunk - 1) / kMixChunk;
  const int64_t rows = std::max<int64_t>(pool_.threads(), 2) * kBlockRows;
  DI_ASSIGN_OR_RETURN(mix_partials_,
                      Buffer::allocate(static_cast<uint64_t>(rows * mix_chunks_ * kMixPartial) * sizeof(float)));
  return {};
}

void Steps::hyper_connection_mix(const HyperConnectionMix& op) {
  const int64_t width = op.streams.columns, rows = op.streams.rows;
  const int64_t chunks = (width + kMixChunk - 1) / kMixChunk;
  DI_CHECK(chunks <= mix_chunks_, "prepare() was told a smaller hidden size");
  const HyperConnectionWeights& w = op.weights;
  const int64_t row_stride = chunks * kMixPartial;
  float* const partials = mix_partials_.as<float>();
  const auto accumulate = [&](int64_t first_row, int64_t count, int64_t chunk, int product, int products, float* to) {
    const int64_t first = chunk * kMixChunk;
    kernels_.mix_partial(reinterpret_cast<const uint16_t*>(op.streams.row(first_row)), op.streams.stride, count, w.fn,
                         width, first, std::min(kMixChunk, width - first), product, products, to + chunk * kMixPartial,
                         row_stride);
  };
  const MixFinish site{chunks, width, w.base, w.scale, w.sinkhorn_iterations, w.hc_eps, w.norm_eps};
  // Rows [first, first + count), whose partial sums begin at `from`.
  const auto finish = [&](int64_t first, int64_t count, const float* from) {
    for (int64_t begin = 0; begin < count; begin += kMixFinishRows) {
      const int64_t here = std::min<int64_t>(kMixFinishRows, count - begin);
      float *pre[kMixFinishRows], *post[kMixFinishRows], *comb[kMixFinishRows];
      for (int64_t i = 0; i < here; ++i) {
        pre[i] = op.pre.row(first + begin + i);
        post[i] = op.post.row(first + begin + i);
        comb[i] = op.comb.row(first + begin + i);
      }
      kernels_.mix_finish(from + begin * row_stride, row_stride, here, site, pre, post, comb);
    }
  };
  const int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  if (blocks < pool_.threads()) {
    // Few rows: threads share each row's chunks and its products.  rows < threads * kBlockRows, so all partial sums
    // have a place.  Few chunks of few rows are not worth a hand-off.
    const int64_t parts = rows * chunks <= kFewChunks ? 1 : kMixCount / kMixProducts;
    const auto run = [&](int64_t task, int) {
      const int64_t part = task / parts, first = part / chunks * kBlockRows;
      const auto product = static_cast<int>(task % parts * kMixProducts);
      accumulate(first, std::min(kBlockRows, rows - first), part % chunks, product, static_cast<int>(kMixCount / parts),
                 partials + first * row_stride);
    };
    const int64_t tasks = blocks * chunks * parts;
    if (rows * chunks <= kFewChunks) {
      for (int64_t task = 0; task < tasks; ++task) run(task, 0);
    } else {
      for_each_task(pool_, tasks, run);
    }
    const int64_t groups = (rows + kMixFinishRows - 1) / kMixFinishRows;
    for_each_row(pool_, groups, 8192, [&](int64_t group, int) {
      const int64_t first = group * kMixFinishRows;
      finish(first, std::min<int64_t>(kMixFinishRows, rows - first), partials + first * row_stride);
    });
    return;
  }
  for_each_task(pool_, blocks, [&](int64_t block, int thread) {
    const int64_t first = block * kBlockRows, count = std::min(kBlockRows, rows - first);
    float* own = partials + thread * kBlockRows * row_stride;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) accumulate(first, count, chunk, 0, kMixCount, own);
    finish(first, count, own);
  });
}

}  // namespace deepinfer::cpu
