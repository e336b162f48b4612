#include "engine/undrawable_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace deepinfer {

bool drawn(const SampledRow& row) {
  return row.token >= 0 && std::isfinite(row.key);
}

Status undrawable(Memory& memory, MatrixView<const float> logits, int64_t position, bool masked) {
  std::vector<float> z(static_cast<size_t>(logits.columns));
  memory.read(z.data(), logits.row(0), z.size() * sizeof(float));
  const auto bad = std::find_if(z.begin(), z.end(), [](float v) { return !(v < INFINITY); });
  if (masked && bad == z.end())
    return invalid_argument(fmt::format(
        "no token is left at position {}: allowed_tokens, bad_words, min_tokens and the grammar together exclude all",
        position));
  // Without its sign, which a NaN has by chance.
  const std::string found = bad == z.end() ? "no token has one that can be drawn from"
                                           : fmt::format("token {} has {}", bad - z.begin(), std::abs(*bad));
  return corrupt_file(fmt::format(
      "logits are not finite at position {}: {}; the model's weights are damaged or overflow", position, found));
}

}  // namespace deepinfer
