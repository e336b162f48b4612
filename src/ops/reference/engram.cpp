#include "ops/engram.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "ops/reference/activation.h"
#include "ops/reference/norm.h"
#include "ops/reference/reference.h"
#include "ops/reference/weight_rows.h"
#include "tensor/formats.h"

namespace deepinfer::reference {

void engram_gather(const EngramGather& op) {
  const int64_t width = op.table.width;
  DI_CHECK(op.e.columns == op.lookups * width, "e is [rows, lookups * width]");
  for (int64_t m = 0; m < op.e.rows; ++m) {
    for (int64_t i = 0; i < op.lookups; ++i) {
      bf16* to = op.e.row(m) + i * width;
      const int64_t row = op.row[m * op.lookups + i];
      if (row < 0 || row >= op.table.rows) {
        std::fill_n(to, width, bf16{0});
        continue;
      }
      const uint8_t* values = op.table.weight + row * width;
      const uint8_t* scales = op.table.scale + row * (width / kFp8Group);
      for (int64_t c = 0; c < width; ++c) {
        to[c] = to_bf16(e4m3_to_float(values[c]) * e8m0_to_float(scales[c / kFp8Group]));
      }
    }
  }
}

void engram_mix(const EngramMix& op) {
  const int64_t d = op.streams.columns / kHyperCopies;
  DI_CHECK(op.streams.columns == kHyperCopies * d && op.kv.columns == (kHyperCopies + 1) * d,
           "streams is [rows, 4 d], kv [rows, 5 d]");
  const float norm = static_cast<float>(std::pow(static_cast<double>(d), -0.5));
  for (int64_t m = 0; m < op.streams.rows; ++m) {
    if (op.dead != nullptr && op.dead[m] != 0) continue;
    const std::vector<float> x = to_floats(op.streams.row(m), kHyperCopies * d);
    const std::vector<float> kv = to_floats(op.kv.row(m), (kHyperCopies + 1) * d);
    const float* value = kv.data() + kHyperCopies * d;
    for (int64_t j = 0; j < kHyperCopies; ++j) {
      const float* xj = x.data() + j * d;
      const float* key = kv.data() + j * d;
      float dot = 0;
      for (int64_t c = 0; c < d; ++c) {
        const float weight = to_float(op.query_weight[j * d + c]) * to_float(op.key_weight[j * d + c]);
        dot += xj[c] * weight * key[c];
      }
      const float a = dot * (inverse_rms(xj, d, op.eps) * inverse_rms(key, d, op.eps)) * norm;
      const float gate = sigmoid(std::copysign(std::sqrt(std::max(std::abs(a), 1e-6f)), a));
      bf16* out = op.streams.row(m) + j * d;
      for (int64_t c = 0; c < d; ++c) out[c] = to_bf16(xj[c] + gate * value[c]);
    }
  }
}

}  // namespace deepinfer::reference
