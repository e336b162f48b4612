#include "grammar/regex/regex_rules.h"

#include <fmt/format.h>

namespace deepinfer {
namespace {

const CodepointSet kEscapedInJson{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};

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

Choices RegexRules::one_character(const CodepointSet& set) const {
  if (spelling_ == CharacterSpelling::kPlain) return {{Term::one_of(set)}};
  Choices choices;
  CodepointSet plain = set.minus(kEscapedInJson);
  if (!plain.empty()) choices.push_back({Term::one_of(std::move(plain))});
  const CodepointSet escaped = set.intersection(kEscapedInJson);
  for (const CodepointRange& range : escaped.ranges())
    for (uint32_t c = range.first; c <= range.last; ++c) choices.push_back({Term::literal(json_spelling(c))});
  return choices;
}

Sequence RegexRules::characters(const CodepointSet& set, int64_t least, int64_t most) {
  if (spelling_ == CharacterSpelling::kPlain || set.intersection(kEscapedInJson).empty())
    return {Term::one_of(set, least, most)};
  Sequence sequence;
  if (most < 0) {
    // One rule that goes round by itself is a plain automaton for the matcher.
    auto [star, fresh] = star_rules_.try_emplace(set, -1);
    if (fresh) {
      star->second = rules_.add();
      Choices choices{{}};
      for (Sequence& choice : one_character(set)) {
        choice.push_back(Term::of_rule(star->second));
        choices.push_back(std::move(choice));
      }
      rules_.set(star->second, std::move(choices));
    }
    most = least;
    sequence.push_back(Term::of_rule(star->second));
  }
  if (most > 0) {
    auto [one, fresh] = character_rules_.try_emplace(set, -1);
    if (fresh) one->second = rules_.add(one_character(set));
    sequence.insert(sequence.begin(), Term::of_rule(one->second, least, most));
  }
  return sequence;
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
