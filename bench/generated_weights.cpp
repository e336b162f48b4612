#include "bench/generated_weights.h"

#include <cstring>
#include <functional>

namespace deepinfer::bench {
namespace {

// Words of a linear generator with mixing (splitmix64), masked to valid codes.
void fill_words(std::byte* data, uint64_t bytes, uint64_t seed, uint64_t keep, uint64_t set) {
  uint64_t state = seed;
  for (uint64_t at = 0; at < bytes; at += 8) {
    uint64_t word = (state += 0x9E3779B97F4A7C15u);
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    word = ((word ^ (word >> 31)) & keep) | set;
    std::memcpy(data + at, &word, static_cast<size_t>(bytes - at < 8 ? bytes - at : 8));
  }
}

void fill_floats(std::byte* data, uint64_t bytes, float value) {
  for (uint64_t at = 0; at + sizeof value <= bytes; at += sizeof value) std::memcpy(data + at, &value, sizeof value);
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

void generate_weight(std::string_view name, DType dtype, std::byte* data, uint64_t bytes) {
  const uint64_t seed = std::hash<std::string_view>{}(name);
  switch (dtype) {
    case DType::kF8E8M0:
      std::memset(data, 120, static_cast<size_t>(bytes));  // 2^-7
      return;
    case DType::kF8E4M3:
      fill_words(data, bytes, seed, 0xBFBFBFBFBFBFBFBFu, 0);  // |x| < 2: no NaN
      return;
    case DType::kBF16:
      if (contains(name, "norm.weight")) {
        fill_words(data, bytes, seed, 0, 0x3F803F803F803F80u);  // 1
      } else {
        fill_words(data, bytes, seed, 0x807F807F807F807Fu, 0x3C003C003C003C00u);  // +-[1/128, 1/64)
      }
      return;
    case DType::kF32:
      if (contains(name, "_fn")) {
        fill_words(data, bytes, seed, 0x807FFFFF807FFFFFu, 0x3B8000003B800000u);  // +-[1/256, 1/128)
      } else {
        fill_floats(data, bytes, contains(name, "_scale") ? 0.1f : 0.0f);
      }
      return;
    default:
      fill_words(data, bytes, seed, ~uint64_t{0}, 0);  // FP4 pairs: every code is a number
  }
}

}  // namespace deepinfer::bench
