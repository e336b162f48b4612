// TokenCounts: how often each token occurs in prompt and output, for penalties.  Kept only where a request has one.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "ops/sample.h"

namespace deepinfer {

class TokenCounts {
 public:
  void add_prompt(std::span<const int32_t> tokens) {
    for (const int32_t token : tokens) ++entry(token).in_prompt;
  }
  void add_output(int32_t token) { ++entry(token).in_output; }
  std::span<const TokenCount> list() const { return list_; }

 private:
  TokenCount& entry(int32_t token) {
    const auto [place, added] = places_.try_emplace(token, list_.size());
    if (added) list_.push_back({token, 0, 0});
    return list_[place->second];
  }

  std::vector<TokenCount> list_;
  std::unordered_map<int32_t, size_t> places_;
};

}  // namespace deepinfer
