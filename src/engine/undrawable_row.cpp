#include "engine/undrawable_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace deepinfer {

bool drawn(const SampledRow& row) {
  return row.token >= 0 && std::isfinite(row.key);
}

Status undrawable(MatrixView<const float> logits, int64_t position, bool masked) {
  const float* const z = logits.row(0);
  const float* const bad = std::find_if(z, z + logits.columns, [](float v) { return !(v < INFINITY); });
  if (masked && bad == z + logits.columns)
    return invalid_argument(fmt::format(
        "no token is left at position {}: allowed_tokens, bad_words, min_tokens and the grammar together exclude all",
        position));
  // Without its sign, which a NaN has by chance.
  const std::string found = bad == z + logits.columns ? "no token has one that can be drawn from"
                                                      : fmt::format("token {} has {}", bad - z, std::abs(*bad));
  return corrupt_file(fmt::format(
      "logits are not finite at position {}: {}; the model's weights are damaged or overflow", position, found));
}

}  // namespace deepinfer
