#include "models/deepseek_v41/pcg64.h"

#include <array>

#include "base/check.h"

namespace deepinfer::deepseek_v41 {
namespace {

constexpr int kPool = 4;
__extension__ typedef unsigned __int128 uint128;
constexpr uint128 kMultiplier = (static_cast<uint128>(0x2360ed051fc65da4u) << 64) | 0x4385df649fccf645u;

// SeedSequence(seed).generate_state(4, uint64): entropy of one word spread over a pool of four.
std::array<uint64_t, 4> seed_words(uint32_t seed) {
  uint32_t constant = 0x43b0d7e5u;
  const auto hash = [&constant](uint32_t value) {
    value ^= constant;
    constant *= 0x931e8875u;
    value *= constant;
    return value ^ (value >> 16);
  };
  std::array<uint32_t, kPool> pool{};
  for (int i = 0; i < kPool; ++i) pool[i] = hash(i == 0 ? seed : 0);
  for (int from = 0; from < kPool; ++from) {
    for (int to = 0; to < kPool; ++to) {
      if (from == to) continue;
      const uint32_t mixed = pool[to] * 0xca01f9ddu - hash(pool[from]) * 0x4973f715u;
      pool[to] = mixed ^ (mixed >> 16);
    }
  }
  std::array<uint32_t, 8> words{};
  constant = 0x8b51f9ddu;
  for (int i = 0; i < 8; ++i) {
    uint32_t value = pool[i % kPool] ^ constant;
    constant *= 0x58f38dedu;
    value *= constant;
    words[i] = value ^ (value >> 16);
  }
  std::array<uint64_t, 4> out{};
  for (int i = 0; i < 4; ++i) out[i] = words[2 * i] | (static_cast<uint64_t>(words[2 * i + 1]) << 32);
  return out;
}

}  // namespace

Pcg64::Pcg64(uint32_t seed) {
  const auto s = seed_words(seed);
  increment_ = (((static_cast<uint128>(s[2]) << 64) | s[3]) << 1) | 1;
  state_ = (increment_ + ((static_cast<uint128>(s[0]) << 64) | s[1])) * kMultiplier + increment_;
}

uint64_t Pcg64::next() {
  state_ = state_ * kMultiplier + increment_;
  const uint64_t folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  const auto turn = static_cast<unsigned>(state_ >> 122);
  return (folded >> turn) | (folded << ((64 - turn) & 63));
}

uint64_t Pcg64::below(uint64_t bound) {
  DI_CHECK(bound > (uint64_t{1} << 32), "numpy draws small bounds differently");
  const uint64_t threshold = (0 - bound) % bound;  // 2^64 mod bound
  while (true) {
    const uint128 product = static_cast<uint128>(next()) * bound;
    if (static_cast<uint64_t>(product) >= threshold) return static_cast<uint64_t>(product >> 64);
  }
}

}  // namespace deepinfer::deepseek_v41
