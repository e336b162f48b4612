#include "ops/reference/norm.h"

#include <cmath>

#include "ops/reference/reference.h"

namespace deepinfer::reference {

float inverse_rms(const float* x, int64_t count, float eps) {
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += x[i] * x[i];
  return 1.0f / std::sqrt(sum / static_cast<float>(count) + eps);
}

void rms_norm_row(const bf16* x, const bf16* weight, int64_t count, float eps, bf16* y) {
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += to_float(x[i]) * to_float(x[i]);
  const float r = 1.0f / std::sqrt(sum / static_cast<float>(count) + eps);
  for (int64_t i = 0; i < count; ++i) y[i] = to_bf16(to_float(weight[i]) * (to_float(x[i]) * r));
}

void rms_norm(const RmsNorm& op) {
  for (int64_t m = 0; m < op.x.rows; ++m) rms_norm_row(op.x.row(m), op.weight, op.x.columns, op.eps, op.y.row(m));
  if (op.quantize) quantize_activation({op.y, op.y});
}

}  // namespace deepinfer::reference
