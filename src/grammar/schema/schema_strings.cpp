// Strings of SchemaRules.
#include <fmt/format.h>

#include "grammar/schema/schema_rules.h"
#include "grammar/schema/string_formats.h"

namespace deepinfer {
namespace {

const JsonDocument* owner_of(const ExpandedNode& expanded) {
  return expanded.parts.empty() ? nullptr : expanded.parts.front().schema;
}

void remove_characters(Regex& regex, const CodepointSet& without) {
  if (without.empty()) return;
  for (Regex::Node& node : regex.nodes)
    if (node.kind == Regex::Node::Kind::kClass) node.set = node.set.minus(without);
}

// The only repeated class that the whole expression consists of.
const Regex::Node* single_repeat(const Regex& regex) {
  const Regex::Node& root = regex.nodes[static_cast<size_t>(regex.root)];
  if (root.kind != Regex::Node::Kind::kRepeat) return nullptr;
  return regex.nodes[static_cast<size_t>(root.children[0])].kind == Regex::Node::Kind::kClass ? &root : nullptr;
}

constexpr int64_t kMostLength = 100'000;

}  // namespace

int SchemaRules::any_string() {
  if (any_string_ >= 0) return any_string_;
  // Every spelling of JSON is accepted; surrogates only in pairs.
  const CodepointSet plain = CodepointSet::all().minus({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}).minus(options_.escaped);
  const CodepointSet hex{{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  const CodepointSet not_d{{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}};
  const CodepointSet d{{'D', 'D'}, {'d', 'd'}};
  const int escape = rules_.add({
      {Term::one_of(
          {{'"', '"'}, {'/', '/'}, {'\\', '\\'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}})},
      {Term::literal("u"), Term::one_of(not_d), Term::one_of(hex, 3, 3)},
      {Term::literal("u"), Term::one_of(d), Term::one_of({{'0', '7'}}), Term::one_of(hex, 2, 2)},
      {Term::literal("u"), Term::one_of(d), Term::one_of({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), Term::one_of(hex, 2, 2),
       Term::literal("\\u"), Term::one_of(d), Term::one_of({{'C', 'F'}, {'c', 'f'}}), Term::one_of(hex, 2, 2)},
  });
  const int rest = rules_.add();
  rules_.set(rest, {{Term::literal("\"")},
                    {Term::one_of(plain), Term::of_rule(rest)},
                    {Term::literal("\\"), Term::of_rule(escape), Term::of_rule(rest)}});
  any_string_ = rules_.add({{Term::literal("\""), Term::of_rule(rest)}});
  return any_string_;
}

Result<Sequence> SchemaRules::string_content(const ExpandedNode& expanded, const SchemaFacts& facts,
                                             RegexRules& spelled, const CodepointSet& without,
                                             const std::string& closing) {
  const JsonDocument* owner = owner_of(expanded);
  std::vector<std::string> expressions = facts.patterns;
  if (facts.formats.size() > 1) return graph_.refused(owner, "more than one format is not supported");
  std::optional<Regex> regex;
  if (!facts.formats.empty()) {
    const std::optional<std::string_view> pattern = format_pattern(facts.formats[0]);
    if (!pattern) return graph_.refused(owner, fmt::format("the format {} is not supported", facts.formats[0]));
    if (!expressions.empty()) return graph_.refused(owner, "format together with pattern is not supported");
    DI_ASSIGN_OR_RETURN(regex, parse_regex(*pattern, RegexUse::kWhole));
  }
  if (expressions.size() > 1) return graph_.refused(owner, "more than one pattern for a string is not supported");
  if (!expressions.empty()) {
    Result<Regex> parsed = parse_regex(expressions[0], RegexUse::kSearch);
    if (!parsed.ok())
      return Status(parsed.status().code(), graph_.place(owner) + "pattern: " + parsed.status().message());
    regex = std::move(parsed).value();
  }
  if (facts.most_length >= 0 && facts.most_length < facts.least_length) return Sequence{Term::one_of(CodepointSet())};
  if (facts.least_length > kMostLength)
    return graph_.refused(owner, fmt::format("minLength above {} is not supported", kMostLength));
  if (!regex) {
    if (facts.most_length > kMostLength)
      return graph_.refused(owner, fmt::format("maxLength above {} is not supported", kMostLength));
    return spelled.run(CodepointSet::all().minus(without), facts.least_length, facts.most_length, closing);
  }
  remove_characters(*regex, without);
  const RegexLength length = regex_length(*regex);
  const bool long_enough = length.least >= facts.least_length;
  const bool short_enough = facts.most_length < 0 || (length.most >= 0 && length.most <= facts.most_length);
  if (const Regex::Node* repeat = single_repeat(*regex)) {
    const int64_t least = std::max(repeat->least, facts.least_length);
    const int64_t most = repeat->most < 0        ? facts.most_length
                         : facts.most_length < 0 ? repeat->most
                                                 : std::min(repeat->most, facts.most_length);
    if (most >= 0 && most < least) return Sequence{Term::one_of(CodepointSet())};
    if (most > kMostLength)
      return graph_.refused(owner, fmt::format("maxLength above {} is not supported", kMostLength));
    return spelled.run(regex->nodes[static_cast<size_t>(repeat->children[0])].set, least, most, closing);
  }
  if (long_enough && short_enough) {
    Sequence content = spelled.whole(*regex);
    content.push_back(Term::literal(closing));
    return content;
  }
  return graph_.refused(
      owner, fmt::format("{} together with {} is supported where the expression is one repeated class "
                         "(^[a-z]*$) or keeps to the length anyway",
                         facts.formats.empty() ? "pattern" : "format", long_enough ? "maxLength" : "minLength"));
}

Result<Choices> SchemaRules::strings(const ExpandedNode& expanded, const SchemaFacts& facts) {
  const bool free = facts.patterns.empty() && facts.formats.empty() && facts.least_length == 0 && facts.most_length < 0;
  if (free) return Choices{{Term::of_rule(any_string())}};
  DI_ASSIGN_OR_RETURN(Sequence content, string_content(expanded, facts, json_text_, {}, "\""));
  content.insert(content.begin(), Term::literal("\""));
  return Choices{std::move(content)};
}

Result<std::optional<Sequence>> SchemaRules::plain_string(const SchemaNode& node,
                                                          const std::vector<std::string>& stops) {
  DI_ASSIGN_OR_RETURN(const ExpandedNode expanded, graph_.expand(node));
  if (expanded.impossible || !expanded.alternatives.empty()) return std::optional<Sequence>();
  DI_ASSIGN_OR_RETURN(const SchemaFacts facts, gather_facts(graph_, expanded.parts, options_.strict));
  if (facts.constant != nullptr || facts.enumeration != nullptr) {
    Choices choices;
    std::vector<const JsonDocument*> candidates;
    if (facts.constant != nullptr) {
      candidates.push_back(facts.constant);
    } else {
      for (const JsonDocument& candidate : *facts.enumeration) candidates.push_back(&candidate);
    }
    for (const JsonDocument* candidate : candidates) {
      DI_ASSIGN_OR_RETURN(const bool fits, matches(*candidate, node, 0));
      if (!fits) continue;
      if (!candidate->is_string()) return std::optional<Sequence>();
      const auto& text = candidate->get_ref<const std::string&>();
      for (const std::string& stop : stops)
        if (text.find(stop) != std::string::npos)
          return graph_.refused(owner_of(expanded),
                                fmt::format("a string that holds {} cannot be passed to a tool", stop));
      choices.push_back({Term::literal(text)});
    }
    return std::optional<Sequence>({Term::of_rule(rules_.add(std::move(choices)))});
  }
  if (facts.types != kStringType) return std::optional<Sequence>();
  if (facts.patterns.empty() && facts.formats.empty() && facts.least_length == 0 && facts.most_length < 0)
    return std::optional<Sequence>({Term::free_text(stops)});
  // A character that every stop needs is left out, so that none can be spelled.
  CodepointSet without;
  for (const std::string& stop : stops) {
    std::vector<uint32_t> codepoints;
    read_utf8(stop, codepoints);
    uint32_t rarest = 0;
    for (const uint32_t codepoint : codepoints) rarest = std::max(rarest, codepoint);
    without.add(rarest, rarest);
  }
  DI_ASSIGN_OR_RETURN(Sequence content, string_content(expanded, facts, plain_text_, without, ""));
  return std::optional<Sequence>(std::move(content));
}

}  // namespace deepinfer
