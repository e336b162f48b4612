// RuleSet: a context-free grammar under construction.  JSON schemas, regular expressions, EBNF text and tool calls are
// all translated into one; write_ebnf is the only way from there into the matching library.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "grammar/codepoint_set.h"

namespace deepinfer {

// One element of a sequence, repeated `least` to `most` times.
struct Term {
  enum class Kind {
    kText,      // exactly these bytes (UTF-8)
    kClass,     // one character of `set`
    kRule,      // what rule `rule` derives
    kFreeText,  // any text that holds none of `excluded`; never repeated
  };
  Kind kind = Kind::kText;
  std::string text;
  CodepointSet set;
  int rule = -1;
  std::vector<std::string> excluded;
  int64_t least = 1;
  int64_t most = 1;  // -1: no bound

  static Term literal(std::string text);
  static Term one_of(CodepointSet set, int64_t least = 1, int64_t most = 1);
  static Term of_rule(int rule, int64_t least = 1, int64_t most = 1);
  static Term free_text(std::vector<std::string> excluded);
};

using Sequence = std::vector<Term>;     // empty: the empty text
using Choices = std::vector<Sequence>;  // empty: nothing at all is derived

class RuleSet {
 public:
  // A rule whose choices are given now or later.
  int add(Choices choices = {});
  void set(int rule, Choices choices);
  const Choices& choices(int rule) const { return rules_[static_cast<size_t>(rule)]; }
  int size() const { return static_cast<int>(rules_.size()); }
  // Terms in all rules, a measure of the grammar's size.
  int64_t terms() const { return terms_; }

  // EBNF text of all that `root` reaches, with the rule `root` as its start.  Alternatives that derive no text at all
  // are left out.  Error: kInvalidArgument when nothing can be derived from `root`.
  Result<std::string> write_ebnf(int root) const;

 private:
  std::vector<bool> productive_rules() const;

  std::vector<Choices> rules_;
  int64_t terms_ = 0;
};

}  // namespace deepinfer
