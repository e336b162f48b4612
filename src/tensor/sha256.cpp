#include "tensor/sha256.h"

#include <cpuid.h>
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace deepinfer {
namespace {

constexpr size_t kBlock = 64;

alignas(16) constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian_word(const std::byte* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return __builtin_bswap32(word);
}

void add_blocks_scalar(std::array<uint32_t, 8>& state, const std::byte* data, size_t count) {
  for (; count > 0; --count, data += kBlock) {
    uint32_t w[64];
    for (size_t t = 0; t < 16; ++t) w[t] = big_endian_word(data + 4 * t);
    for (size_t t = 16; t < 64; ++t) {
      const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
      const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (size_t t = 0; t < 64; ++t) {
      const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
      const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    const uint32_t added[8] = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) state[i] += added[i];
  }
}

// The SHA instructions keep the state as (a b e f) and (c d g h), highest lane first, and do two rounds each.
__attribute__((target("sha,sse4.1,ssse3"))) void add_blocks_sha(std::array<uint32_t, 8>& state, const std::byte* data,
                                                                size_t count) {
  const __m128i to_big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  auto [a, b, c, d, e, f, g, h] = state;
  __m128i abef = _mm_set_epi32(static_cast<int>(a), static_cast<int>(b), static_cast<int>(e), static_cast<int>(f));
  __m128i cdgh = _mm_set_epi32(static_cast<int>(c), static_cast<int>(d), static_cast<int>(g), static_cast<int>(h));
  for (; count > 0; --count, data += kBlock) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i w[4];  // the last 16 words of the message schedule
    for (int i = 0; i < 4; ++i) {
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data) + i), to_big_endian);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      __m128i& current = w[i % 4];
      if (i >= 4) {  // words 4i .. 4i+3 from the 16 before them
        const __m128i w7 = _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4);
        current = _mm_add_epi32(_mm_sha256msg1_epu32(current, w[(i + 1) % 4]), w7);
        current = _mm_sha256msg2_epu32(current, w[(i + 3) % 4]);
      }
      const __m128i sum = _mm_add_epi32(current, _mm_load_si128(reinterpret_cast<const __m128i*>(kRound) + i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  alignas(16) uint32_t lanes[8];
  _mm_store_si128(reinterpret_cast<__m128i*>(lanes), abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(lanes) + 1, cdgh);
  state = {lanes[3], lanes[2], lanes[7], lanes[6], lanes[1], lanes[0], lanes[5], lanes[4]};
}

bool cpu_has_sha() {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  const bool vectors = (ecx & bit_SSSE3) != 0 && (ecx & bit_SSE4_1) != 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return vectors && (ebx & bit_SHA) != 0;
}

void add_blocks(std::array<uint32_t, 8>& state, const std::byte* data, size_t count, bool portable) {
  static const bool has_sha = cpu_has_sha();
  if (has_sha && !portable) {
    add_blocks_sha(state, data, count);
  } else {
    add_blocks_scalar(state, data, count);
  }
}

}  // namespace

void Sha256::update(std::span<const std::byte> bytes) {
  total_bytes_ += bytes.size();
  if (pending_bytes_ > 0) {
    const size_t taken = std::min(bytes.size(), kBlock - pending_bytes_);
    std::copy_n(bytes.data(), taken, pending_.data() + pending_bytes_);
    pending_bytes_ += taken;
    bytes = bytes.subspan(taken);
    if (pending_bytes_ < kBlock) return;
    add_blocks(state_, pending_.data(), 1, portable_);
    pending_bytes_ = 0;
  }
  const size_t whole = bytes.size() / kBlock;
  add_blocks(state_, bytes.data(), whole, portable_);
  bytes = bytes.subspan(whole * kBlock);
  std::copy_n(bytes.data(), bytes.size(), pending_.data());
  pending_bytes_ = bytes.size();
}

Sha256::Digest Sha256::finish() {
  const uint64_t length_in_bits = total_bytes_ * 8;
  std::array<std::byte, 2 * kBlock> tail{};
  std::copy_n(pending_.data(), pending_bytes_, tail.data());
  tail[pending_bytes_] = std::byte{0x80};
  const size_t blocks = pending_bytes_ + 9 <= kBlock ? 1 : 2;
  for (size_t i = 0; i < 8; ++i) {
    tail[blocks * kBlock - 1 - i] = static_cast<std::byte>(length_in_bits >> (8 * i));
  }
  add_blocks(state_, tail.data(), blocks, portable_);
  Digest digest;
  for (size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

std::string to_hex(const Sha256::Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15u];
  }
  return text;
}

}  // namespace deepinfer
