// TokenCounts: how often each token occurs in prompt and output, for penalties.  Kept only where a request has one.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/sample.h"

namespace deepinfer {

class TokenCounts {
 public:
  // Counting up to this many different tokens will allocate nothing.
  void reserve(size_t tokens) {
    list_.reserve(tokens);
    if (places_.size() < 2 * tokens) rehash(std::bit_ceil(2 * tokens));
  }
  void add_prompt(std::span<const int32_t> tokens) {
    for (const int32_t token : tokens) ++entry(token).in_prompt;
  }
  void add_output(int32_t token) { ++entry(token).in_output; }
  std::span<const TokenCount> list() const { return list_; }

 private:
  // Where the token's entry is noted, or the free place where it would be: never more than half of them are taken.
  int32_t& place(int32_t token) {
    const size_t mask = places_.size() - 1;
    size_t at = (static_cast<uint32_t>(token) * uint32_t{0x9E3779B1}) & mask;
    while (places_[at] >= 0 && list_[static_cast<size_t>(places_[at])].token != token) at = (at + 1) & mask;
    return places_[at];
  }
  TokenCount& entry(int32_t token) {
    if (places_.size() < 2 * (list_.size() + 1)) rehash(std::max<size_t>(16, 2 * places_.size()));
    int32_t& at = place(token);
    if (at < 0) {
      list_.push_back({token, 0, 0});
      at = static_cast<int32_t>(list_.size()) - 1;
    }
    return list_[static_cast<size_t>(at)];
  }
  void rehash(size_t places) {
    places_.assign(places, -1);
    for (size_t i = 0; i < list_.size(); ++i) place(list_[i].token) = static_cast<int32_t>(i);
  }

  std::vector<TokenCount> list_;  // in the order of first occurrence
  std::vector<int32_t> places_;   // indices into list_ by hash, -1 free; a power of two
};

}  // namespace deepinfer
