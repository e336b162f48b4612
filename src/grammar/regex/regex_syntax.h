// Regular expressions as trees: the dialect of JSON Schema's `pattern` (ECMA-262 without what no automaton can do).
// Parsed by parse_regex; translated by regex_rules.h; run by matches_regex.  No expression is ever backtracked.
//
// Accepted: literals, escapes (\d \D \w \W \s \S \t \n \v \f \r \0 \cX \xHH \uHHHH \u{H...} and escaped punctuation),
// classes, groups (plain, (?:...), (?<name>...)), alternation, * + ? {n} {n,} {n,m} (lazy forms match the same texts),
// `.`, and ^ and $ at the ends of the expression or of an alternative of the whole expression.
// Refused by name, with the position: look-around, back-references, \b \B, \p, inline flags, anchors elsewhere.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/codepoint_set.h"

namespace deepinfer {

struct RegexLimits {
  size_t bytes = 16384;
  int depth = 100;            // nested groups
  int64_t repeat = 10000;     // largest count in {n,m}
  int64_t positions = 50000;  // characters after all counts are written out
};

struct Regex {
  struct Node {
    enum class Kind { kEmpty, kClass, kSequence, kChoice, kRepeat };
    Kind kind = Kind::kEmpty;
    CodepointSet set;           // kClass
    std::vector<int> children;  // kSequence, kChoice; kRepeat has one
    int64_t least = 0;          // kRepeat
    int64_t most = 0;           // -1: no bound
  };
  std::vector<Node> nodes;  // children before parents
  int root = -1;
};

enum class RegexUse {
  kWhole,   // the whole text matches, as if ^ and $ stood around it (response format `regex`)
  kSearch,  // some part matches, unless ^ and $ say otherwise (JSON Schema)
};

// Error: kInvalidArgument or kUnsupported; the message says at which character.
Result<Regex> parse_regex(std::string_view text, RegexUse use, const RegexLimits& limits = {});

// Characters of the shortest and longest match; -1: no bound.
struct RegexLength {
  int64_t least = 0;
  int64_t most = 0;
};
RegexLength regex_length(const Regex& regex);

// Whether the whole text matches.  Time: nodes x length^2.
bool matches_regex(const Regex& regex, const std::vector<uint32_t>& text);

}  // namespace deepinfer
