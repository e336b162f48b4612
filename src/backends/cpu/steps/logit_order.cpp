#include "backends/cpu/steps/logit_order.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace deepinfer::cpu {
namespace {

// Ascending with the logit; -0 counts as +0.
uint32_t ordered_bits(float z) {
  const uint32_t bits = std::bit_cast<uint32_t>(z + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// Digits of the search, most significant first.
struct Digit {
  int shift;
  uint32_t mask;
  uint32_t of(float z) const { return ordered_bits(z) >> shift & mask; }
};
constexpr Digit kDigits[] = {{21, 2047}, {10, 2047}, {0, 1023}};

}  // namespace

LogitCut everything() {
  return {-std::numeric_limits<float>::infinity(), -1};
}

int64_t list_tokens(const float* z, int64_t vocabulary, LogitCut within, LogitOrderScratch scratch) {
  int64_t count = 0;
  for (int64_t v = 0; v < vocabulary; ++v) {
    scratch.ids[count] = static_cast<int32_t>(v);
    count += inside(within, z[v], v) ? 1 : 0;
  }
  return count;
}

LogitCut cut_at(const float* z, int64_t count, LogitCut within, const uint64_t* weights, uint64_t limit,
                LogitOrderScratch scratch) {
  const auto weight_of = [&](int32_t id) { return weights == nullptr ? 1 : weights[id]; };
  int32_t* const ids = scratch.ids;
  uint64_t before = 0;  // weight of the tokens that come before all of ids
  for (const Digit& digit : kDigits) {
    std::fill_n(scratch.weight, LogitOrderScratch::kBuckets, 0);
    for (int64_t i = 0; i < count; ++i) scratch.weight[digit.of(z[ids[i]])] += weight_of(ids[i]);
    // The bucket in which the weight first exceeds the limit holds the last token that stays.
    int64_t bucket = digit.mask;
    while (bucket >= 0 && before + scratch.weight[bucket] <= limit) before += scratch.weight[bucket--];
    if (bucket < 0) return within;  // it never does
    int64_t left = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (digit.of(z[ids[i]]) == static_cast<uint32_t>(bucket)) ids[left++] = ids[i];
    }
    count = left;
  }
  // Equal logits, hence equal weights, ascending ids.
  const uint64_t stay = (limit - before) / weight_of(ids[0]) + 1;
  const int64_t last = std::min<int64_t>(count, static_cast<int64_t>(std::min<uint64_t>(stay, INT32_MAX))) - 1;
  return {z[ids[0]], ids[last]};
}

}  // namespace deepinfer::cpu
