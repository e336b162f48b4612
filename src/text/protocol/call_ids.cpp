#include "text/protocol/call_ids.h"

namespace deepinfer {
namespace {

// splitmix64: spreads one seed over as many numbers as needed.
uint64_t next(uint64_t& state) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

std::string make_call_id(int index, bool empty_thinking, uint64_t random) {
  static constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::string id = index < 10 ? "call_0" : "call_";
  id += std::to_string(index);
  id += empty_thinking ? "_ET_" : "_";
  for (int i = 0; i < 20; ++i) id += kLetters[next(random) % kLetters.size()];
  for (int i = 0; i < 4; ++i) id += static_cast<char>('0' + next(random) % 10);
  return id;
}

bool says_empty_thinking(std::string_view id) {
  if (!id.starts_with("call_")) return false;
  id.remove_prefix(5);
  size_t digits = 0;
  while (digits < id.size() && is_digit(id[digits])) ++digits;
  return digits >= 2 && id.substr(digits).starts_with("_ET_");
}

}  // namespace deepinfer
