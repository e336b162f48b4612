// A model for tests of scheduling: the record of a token is a hash of the salt and all tokens up to it, and the next
// token is a function of that record.  So whoever reads a record that is not its own gives another answer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace deepinfer::testing {

inline uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// The record before the first token.
inline uint64_t first_record(uint64_t salt) {
  return mix(salt ^ 0x5EED);
}
inline uint64_t next_record(uint64_t record, int32_t token) {
  return mix(record ^ (static_cast<uint64_t>(token) + 1));
}

inline constexpr int32_t kStopToken = 0;

// Token 0 stops; one in `stop_interval` is.
inline int32_t next_token(uint64_t record, uint64_t stop_interval) {
  const uint64_t draw = mix(record ^ 0x70CE);
  if (draw % stop_interval == 0) return kStopToken;
  return 1 + static_cast<int32_t>((draw >> 32) % 1000);
}

inline uint64_t record_of(uint64_t salt, std::span<const int32_t> tokens) {
  uint64_t record = first_record(salt);
  for (const int32_t token : tokens) record = next_record(record, token);
  return record;
}

}  // namespace deepinfer::testing
