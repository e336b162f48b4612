// Philox4x32-10: the counter-based random generator of Salmon et al. (SC 2011).  A draw is a function of its counter
// and key alone, so that noise has no state (specs/dspark.md 5.2b).
#pragma once

#include <array>
#include <cstdint>

namespace deepinfer {

// Four random words for a counter of four words (first word fastest) and a key of two.
inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = uint64_t{counter[0]} * 0xD2511F53u;
    const uint64_t q = uint64_t{counter[2]} * 0xCD9E8D57u;
    counter = {static_cast<uint32_t>(q >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(q),
               static_cast<uint32_t>(p >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

}  // namespace deepinfer
