#include "grammar/regex/regex_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace deepinfer {
namespace {

const CodepointSet kEscapedInJson{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
// Longer bounded runs are counted by the library, which takes one class of characters only: none that JSON must escape.
constexpr int64_t kMostWrittenRun = 64;

}  // namespace

std::string json_spelling(uint32_t codepoint) {
  switch (codepoint) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  if (codepoint < 0x20) return fmt::format("\\u{:04x}", codepoint);
  std::string text;
  append_utf8(codepoint, text);
  return text;
}

std::string with_escapes(const std::string& json, const CodepointSet& escaped) {
  if (escaped.empty()) return json;
  std::vector<uint32_t> codepoints;
  DI_CHECK(read_utf8(json, codepoints), "JSON text is UTF-8");
  std::string text;
  for (const uint32_t codepoint : codepoints) {
    if (escaped.contains(codepoint)) {
      text += fmt::format("\\u{:04x}", codepoint);
    } else {
      append_utf8(codepoint, text);
    }
  }
  return text;
}

RegexRules::RegexRules(RuleSet& rules, CharacterSpelling spelling, CodepointSet escaped)
    : rules_(rules), spelling_(spelling), escaped_(std::move(escaped)), not_as_it_is_(kEscapedInJson) {
  not_as_it_is_.add(escaped_);
}

Choices RegexRules::one_character(const CodepointSet& set) const {
  if (spelling_ == CharacterSpelling::kPlain) return {{Term::one_of(set)}};
  Choices choices;
  CodepointSet plain = set.minus(not_as_it_is_);
  if (!plain.empty()) choices.push_back({Term::one_of(std::move(plain))});
  const CodepointSet escaped = set.intersection(kEscapedInJson);
  CodepointSet short_forms;           // behind the backslash
  std::array<CodepointSet, 2> codes;  // last digit of \u000x and \u001x
  for (const CodepointRange& range : escaped.ranges()) {
    for (uint32_t c = range.first; c <= range.last; ++c) {
      const std::string text = json_spelling(c);
      const auto last = static_cast<uint8_t>(text.back());
      (text.size() == 2 ? short_forms : codes[c / 16]).add(last, last);
    }
  }
  if (!short_forms.empty()) choices.push_back({Term::literal("\\"), Term::one_of(std::move(short_forms))});
  for (int digit = 0; digit < 2; ++digit)
    if (!codes[static_cast<size_t>(digit)].empty())
      choices.push_back(
          {Term::literal(digit == 0 ? "\\u000" : "\\u001"), Term::one_of(codes[static_cast<size_t>(digit)])});
  const CodepointSet by_code = set.intersection(escaped_);
  for (const CodepointRange& range : by_code.ranges())
    for (uint32_t c = range.first; c <= range.last; ++c)
      choices.push_back({Term::literal(fmt::format("\\u{:04x}", c))});
  return choices;
}

Sequence RegexRules::characters(const CodepointSet& set, int64_t least, int64_t most) {
  if (spelling_ == CharacterSpelling::kPlain || set.intersection(not_as_it_is_).empty())
    return {Term::one_of(set, least, most)};
  return run(set, least, most, "");
}

// The matcher decides most tokens when a grammar is compiled, rule by rule, and the others at each step: those that
// leave their rule.  So a run of characters is one rule that goes on in itself, never a rule a character, and what
// closes it belongs to it.
Sequence RegexRules::run(const CodepointSet& set, int64_t least, int64_t most, const std::string& closing) {
  if (std::max(least, most) > kMostWrittenRun) {
    const CodepointSet plain = spelling_ == CharacterSpelling::kPlain ? set : set.minus(not_as_it_is_);
    if (most >= 0) return {Term::one_of(plain, least, most), Term::literal(closing)};
    // One way only: not "any number of them, and then as many as there have to be".
    Sequence sequence{Term::one_of(plain, least, least)};
    for (Term& term : run(plain, 0, -1, closing)) sequence.push_back(std::move(term));
    return sequence;
  }
  const Sequence end = closing.empty() ? Sequence() : Sequence{Term::literal(closing)};
  const auto followed_by = [&](int rule) {
    Choices choices = one_character(set);
    for (Sequence& choice : choices) choice.push_back(Term::of_rule(rule));
    return choices;
  };
  int rest = -1;  // what follows `least` characters
  if (most < 0) {
    auto [star, fresh] = star_rules_.try_emplace({set, closing}, -1);
    if (fresh) {
      star->second = rules_.add();
      Choices choices = followed_by(star->second);
      choices.insert(choices.begin(), end);
      rules_.set(star->second, std::move(choices));
    }
    rest = star->second;
  } else {
    rest = rules_.add({end});
    for (int64_t i = least; i < most; ++i) {
      Choices choices = followed_by(rest);
      choices.insert(choices.begin(), end);
      rest = rules_.add(std::move(choices));
    }
  }
  for (int64_t i = 0; i < least; ++i) rest = rules_.add(followed_by(rest));
  return {Term::of_rule(rest)};
}

Sequence RegexRules::whole(const Regex& regex) {
  using Kind = Regex::Node::Kind;
  std::vector<Sequence> made(regex.nodes.size());
  for (size_t i = 0; i < regex.nodes.size(); ++i) {
    const Regex::Node& node = regex.nodes[i];
    Sequence& mine = made[i];
    const auto child = [&](size_t k) -> const Sequence& { return made[static_cast<size_t>(node.children[k])]; };
    switch (node.kind) {
      case Kind::kEmpty:
        break;
      case Kind::kClass:
        mine = characters(node.set, 1, 1);
        break;
      case Kind::kSequence:
        for (size_t k = 0; k < node.children.size(); ++k) mine.insert(mine.end(), child(k).begin(), child(k).end());
        break;
      case Kind::kChoice: {
        Choices choices;
        for (size_t k = 0; k < node.children.size(); ++k) choices.push_back(child(k));
        mine = {Term::of_rule(rules_.add(std::move(choices)))};
        break;
      }
      case Kind::kRepeat: {
        const Regex::Node& repeated = regex.nodes[static_cast<size_t>(node.children[0])];
        if (repeated.kind == Kind::kClass) {
          mine = characters(repeated.set, node.least, node.most);
        } else if (node.most != 0 && repeated.kind != Kind::kEmpty) {
          mine = {Term::of_rule(rules_.add({child(0)}), node.least, node.most)};
        }
        break;
      }
    }
  }
  return made[static_cast<size_t>(regex.root)];
}

}  // namespace deepinfer
