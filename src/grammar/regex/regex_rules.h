// A regular expression as grammar rules: over plain text, or over the inside of a JSON string.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "grammar/regex/regex_syntax.h"
#include "grammar/rule_set.h"

namespace deepinfer {

enum class CharacterSpelling {
  kPlain,  // UTF-8
  kJson,   // as inside a JSON string, each character in its shortest spelling: \" \\ \b \f \n \r \t, other control
           // characters and those of `escaped` as \uxxxx in lower case, everything else as it is.  Two spellings never
           // mean one string.
};

class RegexRules {
 public:
  // escaped: characters of U+0080 to U+FFFF that JSON text holds escaped only.
  RegexRules(RuleSet& rules, CharacterSpelling spelling, CodepointSet escaped = {});

  // What matches `regex`.
  Sequence whole(const Regex& regex);
  // `least` to `most` characters of `set`; -1: no bound.  Bounded runs of more than 64 characters leave out those that
  // JSON must escape.
  Sequence characters(const CodepointSet& set, int64_t least, int64_t most);
  // The same with `closing` behind it: much cheaper to match than the two one after the other.
  Sequence run(const CodepointSet& set, int64_t least, int64_t most, const std::string& closing);

  // One character of `set`, as alternatives.
  Choices one_character(const CodepointSet& set) const;

 private:
  RuleSet& rules_;
  CharacterSpelling spelling_;
  CodepointSet escaped_;       // of the constructor
  CodepointSet not_as_it_is_;  // all that JSON text holds escaped only
  std::map<std::pair<CodepointSet, std::string>, int> star_rules_;
};

// One character as it stands inside a JSON string (CharacterSpelling::kJson), where nothing else is escaped.
std::string json_spelling(uint32_t codepoint);
// JSON text that is given, with the characters of `escaped` spelled \uxxxx.
std::string with_escapes(const std::string& json, const CodepointSet& escaped);

}  // namespace deepinfer
