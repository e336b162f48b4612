#include "bench/generated_weights.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

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

Status DeviceWeights::generate(std::string_view name, DType dtype, std::byte* data, uint64_t bytes) {
  constexpr uint64_t kPattern = uint64_t{64} << 20, kSmall = uint64_t{1} << 20;
  // Norms, biases and scales are told apart by their names; what is large is a matrix or its scales.
  if (bytes <= kSmall || dtype == DType::kF32) {
    std::vector<std::byte> host(bytes);
    generate_weight(name, dtype, host.data(), bytes);
    memory_.write(data, host.data(), bytes);
    return {};
  }
  if (!patterns_.contains(dtype)) {
    DI_ASSIGN_OR_RETURN(Buffer pattern, Buffer::allocate(kPattern, memory_));
    std::vector<std::byte> host(kPattern);
    generate_weight("pattern", dtype, host.data(), kPattern);
    memory_.write(pattern.data(), host.data(), kPattern);
    patterns_.emplace(dtype, std::move(pattern));
  }
  const Buffer& pattern = patterns_.at(dtype);
  for (uint64_t done = 0; done < bytes;) {
    from_ = (from_ + 4096 * 7) % (kPattern / 2);
    const uint64_t part = std::min(bytes - done, kPattern - from_);
    memory_.copy(data + done, pattern.data() + from_, part);
    done += part;
  }
  return {};
}

}  // namespace deepinfer::bench
