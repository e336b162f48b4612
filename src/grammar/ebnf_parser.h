// parse_ebnf: grammar text of a request, in xgrammar's EBNF, as rules.
//   root ::= "a" ("b" | [c-f]*)+ item{2,5} other?    # a comment
// Escapes in strings and classes: \n \r \t \\ \" \' \? \/ \a \b \f \v \0 \e \xH... \uHHHH \UHHHHHHHH; in classes also
// \^ \$ \. \* \+ \( \) \[ \] \{ \} \| \-.  Look-ahead "(= ...)" and the functions TagDispatch, Token, ExcludeToken and
// TokenTagDispatch are refused by name.
#pragma once

#include <string_view>

#include "base/status.h"
#include "grammar/rule_set.h"

namespace deepinfer {

struct EbnfLimits {
  size_t bytes = 256 * 1024;
  int depth = 64;           // nested groups
  int64_t repeat = 10000;   // largest count in {n,m}
  int64_t terms = 400'000;  // after small counts are written out
};

// The rule named `root`.  Error: kInvalidArgument or kUnsupported with line and column.
Result<int> parse_ebnf(std::string_view text, RuleSet& rules, const EbnfLimits& limits = {});

}  // namespace deepinfer
