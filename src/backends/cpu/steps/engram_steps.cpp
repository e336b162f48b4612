// Engram: rows gathered from a mapped table, and their mix into the stream.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu/steps/row_tasks.h"
#include "backends/cpu/steps/steps.h"
#include "base/check.h"
#include "tensor/formats.h"

namespace deepinfer::cpu {

namespace {

constexpr int64_t kLikelyCached = int64_t{256} << 20;  // bytes: a larger table may lie on disk

// Starts reading the page of these bytes, if it is part of a mapped file and not in memory.
void ask_for_page(const uint8_t* bytes, int64_t count) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = reinterpret_cast<uintptr_t>(bytes) / page * page;
  madvise(reinterpret_cast<void*>(first), reinterpret_cast<uintptr_t>(bytes) + count - first, MADV_WILLNEED);
}

}  // namespace

void Steps::engram_gather(const EngramGather& op) {
  const int64_t width = op.table.width, scales = width / kFp8Group, count = op.e.rows * op.lookups;
  DI_CHECK(op.e.columns == op.lookups * width && width % kFp8Group == 0,
           "e is [rows, lookups * width], width a multiple of 32");
  const auto exists = [&](int64_t row) { return row >= 0 && row < op.table.rows; };
  // A row costs a cache miss, or a read from disk: ask for all of them before the first is used.
  if (op.table.rows * width > kLikelyCached) {
    for (int64_t i = 0; i < count; ++i) {
      if (!exists(op.row[i])) continue;
      ask_for_page(op.table.weight + op.row[i] * width, width);
      ask_for_page(op.table.scale + op.row[i] * scales, scales);
    }
  }
  for_each_row(pool_, op.e.rows, 4 * op.e.columns, [&](int64_t m, int) {
    const int64_t* rows = op.row + m * op.lookups;
    for (int i = 0; i < op.lookups; ++i) {
      if (!exists(rows[i])) continue;
      const uint8_t* values = op.table.weight + rows[i] * width;
      for (int64_t byte = 0; byte < width; byte += 64) __builtin_prefetch(values + byte);
      __builtin_prefetch(op.table.scale + rows[i] * scales);
    }
    for (int i = 0; i < op.lookups; ++i) {
      auto* to = reinterpret_cast<uint16_t*>(op.e.row(m) + i * width);
      if (exists(rows[i])) {
        kernels_.engram_row(op.table.weight + rows[i] * width, op.table.scale + rows[i] * scales, width, to);
      } else {
        std::fill_n(to, width, uint16_t{0});
      }
    }
  });
}

void Steps::engram_mix(const EngramMix& op) {
  const int64_t d = op.streams.columns / kHyperCopies;
  DI_CHECK(op.streams.columns == kHyperCopies * d && op.kv.columns == (kHyperCopies + 1) * d,
           "streams is [rows, 4 d], kv [rows, 5 d]");
  const auto factor = static_cast<float>(std::pow(static_cast<double>(d), -0.5));
  for_each_row(pool_, op.streams.rows, 12 * d, [&](int64_t m, int) {
    if (op.dead != nullptr && op.dead[m] != 0) return;
    kernels_.engram_mix(reinterpret_cast<const uint16_t*>(op.kv.row(m)),
                        reinterpret_cast<const uint16_t*>(op.query_weight),
                        reinterpret_cast<const uint16_t*>(op.key_weight), op.eps, factor, d,
                        reinterpret_cast<uint16_t*>(op.streams.row(m)));
  });
}

}  // namespace deepinfer::cpu
