// Splitter: cuts text into pre-tokens ("pieces"); no token ever crosses the border of a piece.
// Made from the pre_tokenizer of a tokenizer.json by make_splitter(); called by Tokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"

namespace deepinfer {

// Half-open range of byte offsets into the text that was split; never empty.
struct Piece {
  std::uint32_t begin;
  std::uint32_t end;
  bool operator==(const Piece&) const = default;
};

inline constexpr std::size_t kMaxSplitBytes = std::size_t{1} << 31;

class Splitter {
 public:
  // Receives the next pieces, in the order of the text, any number at a time.
  using Sink = FunctionRef<void(std::span<const Piece> pieces)>;

  virtual ~Splitter() = default;
  // `text` is valid UTF-8 of at most kMaxSplitBytes.  Thread-safe.  kResourceExhausted when a regular expression
  // exceeds its match limit.
  virtual Status split(std::string_view text, Sink sink) const = 0;
  // The first offset in [from, text.size()] at which the text may be cut such that the pieces of the two parts, split
  // on their own, are the pieces of the whole.  text.size() when none is known.
  virtual std::size_t safe_cut(std::string_view text, std::size_t from) const = 0;
};

// What happens to the parts of a text that a Split step's expression matches (Hugging Face's words).
enum class SplitBehavior : std::uint8_t { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

// One step of a pre_tokenizer; each is applied to every piece of the step before.
struct SplitRule {
  std::string pattern;   // a regular expression (Oniguruma's syntax as far as PCRE2 shares it)
  bool literal = false;  // `pattern` is plain text
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what does not match counts as the match
  std::string field;    // where the rule stands, for messages: "pre_tokenizer.pretokenizers[0]"
};

// The hand-written scanner when the rules are DeepSeek's to the letter, else a RegexSplitter.  kUnsupported naming
// the rule's field when an expression cannot be compiled.
Result<std::unique_ptr<Splitter>> make_splitter(const std::vector<SplitRule>& rules);

}  // namespace deepinfer
