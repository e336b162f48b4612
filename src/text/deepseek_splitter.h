// DeepSeekSplitter: DeepSeek's three expressions (V3, V4 and V4.1 share them) as one pass over the bytes.
// Equal to RegexSplitter with the same rules piece for piece (tests/text/splitter_test.cpp).
#pragma once

#include <vector>

#include "text/splitter.h"

namespace deepinfer {

class DeepSeekSplitter final : public Splitter {
 public:
  // True when `rules` are DeepSeek's to the letter (in either of the two spellings that its files use).
  static bool accepts(const std::vector<SplitRule>& rules);
  // The rules themselves, for tests and benchmarks.
  static std::vector<SplitRule> rules();

  Status split(std::string_view text, Sink sink) const override;
  std::size_t safe_cut(std::string_view text, std::size_t from) const override;
};

}  // namespace deepinfer
