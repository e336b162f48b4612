// Objects of SchemaRules: properties stand in the order of the schema, others behind them.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "grammar/schema/schema_rules.h"
#include "grammar/work_budget.h"

namespace deepinfer {
namespace {

constexpr int64_t kMostProperties = 10'000;

// The names that are excluded, by character.
struct NameTrie {
  bool is_name = false;
  std::map<uint32_t, std::unique_ptr<NameTrie>> next;
};

}  // namespace

Result<ObjectProperties> SchemaRules::list_properties(const ExpandedNode& expanded, const SchemaFacts& facts,
                                                      bool strict) {
  const JsonDocument* owner = expanded.parts.empty() ? nullptr : expanded.parts.front().schema;
  ObjectProperties found;
  std::map<std::string, size_t> places;
  const auto list = [&](const std::string& name) {
    if (places.try_emplace(name, found.listed.size()).second) found.listed.push_back({name, false, {}});
  };
  bool lists = false, explicit_others = false;
  struct Patterned {
    const JsonDocument* owner;
    std::string pattern;
    const JsonDocument* schema;
    Regex regex;
  };
  std::vector<Patterned> patterned;
  const JsonDocument* names = nullptr;
  for (const SchemaPart& part : expanded.parts) {
    const JsonDocument& schema = *part.schema;
    if (const auto properties = schema.find("properties"); properties != schema.end()) {
      lists = true;
      for (const auto& [name, value] : properties->items()) list(name);
    }
    if (schema.contains("additionalProperties")) explicit_others = true;
    if (const auto patterns = schema.find("patternProperties"); patterns != schema.end()) {
      lists = true;
      for (const auto& [pattern, value] : patterns->items()) {
        Result<Regex> regex = parse_regex(pattern, RegexUse::kSearch);
        if (!regex.ok())
          return Status(regex.status().code(),
                        graph_.place(&schema) + "patternProperties: " + regex.status().message());
        if (regex.value().nodes.size() > 200)
          return graph_.refused(&schema, "so long an expression in patternProperties is not supported");
        patterned.push_back({&schema, pattern, &value, std::move(regex).value()});
      }
    }
    if (const auto only = schema.find("propertyNames"); only != schema.end()) {
      if (names != nullptr && names != &*only)
        return graph_.refused(&schema, "more than one propertyNames is not supported");
      names = &*only;
    }
  }
  for (const std::string& name : facts.required) list(name);
  if (static_cast<int64_t>(found.listed.size()) > kMostProperties)
    return graph_.refused(owner, fmt::format("more than {} properties are not supported", kMostProperties));

  const bool closed = strict && lists && !explicit_others;
  std::vector<bool> pattern_used(patterned.size(), false);
  for (ObjectProperty& property : found.listed) {
    WorkBudget::check();
    property.required = std::find(facts.required.begin(), facts.required.end(), property.name) != facts.required.end();
    std::vector<uint32_t> characters;
    if (!patterned.empty() && property.name.size() > 100)
      return graph_.refused(owner, "patternProperties beside names of more than 100 bytes is not supported");
    read_utf8(property.name, characters);
    for (const SchemaPart& part : expanded.parts) {
      const JsonDocument& schema = *part.schema;
      bool mine = false;
      if (const auto properties = schema.find("properties"); properties != schema.end())
        if (const auto value = properties->find(property.name); value != properties->end()) {
          property.value.push_back({&*value});
          mine = true;
        }
      for (size_t i = 0; i < patterned.size(); ++i) {
        if (patterned[i].owner != &schema || !matches_regex(patterned[i].regex, characters)) continue;
        property.value.push_back({patterned[i].schema});
        pattern_used[i] = mine = true;
      }
      if (const auto others = schema.find("additionalProperties"); others != schema.end() && !mine)
        property.value.push_back({&*others});
    }
    static const JsonDocument kNever = false;
    if (names != nullptr) {
      DI_ASSIGN_OR_RETURN(const bool fits, matches(JsonDocument(property.name), {{names}}, 0));
      if (!fits) property.value.push_back({&kNever});
    }
  }

  // Names that are not listed.
  bool shut = closed;
  for (const SchemaPart& part : expanded.parts) {
    const auto others = part.schema->find("additionalProperties");
    if (others == part.schema->end()) continue;
    const bool has_patterns =
        part.schema->contains("patternProperties") && !part.schema->at("patternProperties").empty();
    if (others->is_boolean() && !others->get<bool>()) {
      shut = true;
    } else if (has_patterns) {
      return graph_.refused(part.schema,
                            "patternProperties is supported together with additionalProperties: false only");
    }
  }
  if (patterned.empty()) {
    found.others = !shut;
    if (found.others)
      for (const SchemaPart& part : expanded.parts)
        if (const auto others = part.schema->find("additionalProperties"); others != part.schema->end())
          found.other.push_back({&*others});
    if (names != nullptr && found.others) {
      if (!found.listed.empty())
        return graph_.refused(
            owner,
            "propertyNames beside listed properties is supported together with additionalProperties: false only");
      found.other_names = SchemaNode{{names}};
    }
    return found;
  }
  if (!shut)
    return graph_.refused(owner, "patternProperties is supported together with additionalProperties: false only");
  // Names that match a pattern are what is left when the others are shut out.
  if (patterned.size() > 1) return graph_.refused(owner, "more than one pattern in patternProperties is not supported");
  if (names != nullptr) return graph_.refused(owner, "patternProperties together with propertyNames is not supported");
  if (pattern_used[0])
    return graph_.refused(owner, "a pattern in patternProperties that matches a listed property is not supported");
  found.others = true;
  found.other_pattern = patterned[0].pattern;
  found.other.push_back({patterned[0].schema});
  for (const SchemaPart& part : expanded.parts) {
    if (part.schema == patterned[0].owner) continue;
    if (const auto others = part.schema->find("additionalProperties"); others != part.schema->end())
      found.other.push_back({&*others});
  }
  return found;
}

Result<ObjectProperties> SchemaRules::properties(const SchemaNode& node) {
  DI_ASSIGN_OR_RETURN(const ExpandedNode expanded, graph_.expand(node));
  if (expanded.impossible) return graph_.wrong(&graph_.root(), "no value can match");
  const JsonDocument* owner = expanded.parts.empty() ? &graph_.root() : expanded.parts.front().schema;
  if (!expanded.alternatives.empty())
    return graph_.refused(owner, "anyOf and oneOf around all parameters are not supported");
  DI_ASSIGN_OR_RETURN(const SchemaFacts facts, gather_facts(graph_, expanded.parts, options_.strict));
  if ((facts.types & kObjectType) == 0 || facts.constant != nullptr || facts.enumeration != nullptr)
    return graph_.refused(owner, "parameters must be an object with properties");
  if (facts.least_properties > 0 || facts.most_properties >= 0)
    return graph_.refused(owner, "minProperties and maxProperties of all parameters are not supported");
  return list_properties(expanded, facts, options_.strict);
}

Sequence SchemaRules::key_other_than(const std::vector<std::string>& names) {
  NameTrie root;
  for (const std::string& name : names) {
    std::vector<uint32_t> characters;
    read_utf8(name, characters);
    NameTrie* at = &root;
    for (const uint32_t character : characters) {
      std::unique_ptr<NameTrie>& next = at->next[character];
      if (next == nullptr) next = std::make_unique<NameTrie>();
      at = next.get();
    }
    at->is_name = true;
  }
  // The closing quote belongs to the rules: see RegexRules::run.
  const Sequence rest = json_text_.run(CodepointSet::all(), 0, -1, "\"");
  const int start = rules_.add();
  std::vector<std::pair<const NameTrie*, int>> due{{&root, start}};
  while (!due.empty()) {
    const auto [node, rule] = due.back();
    due.pop_back();
    Choices choices;
    if (!node->is_name) choices.push_back({Term::literal("\"")});
    CodepointSet followed;
    for (const auto& [character, next] : node->next) {
      followed.add(character, character);
      const int deeper = rules_.add();
      choices.push_back(
          {Term::literal(with_escapes(json_spelling(character), options_.escaped)), Term::of_rule(deeper)});
      due.emplace_back(next.get(), deeper);
    }
    for (Sequence& other : json_text_.one_character(followed.complement())) {
      other.insert(other.end(), rest.begin(), rest.end());
      choices.push_back(std::move(other));
    }
    rules_.set(rule, std::move(choices));
  }
  // The trie is taken apart without recursion: names may be long.
  std::vector<std::unique_ptr<NameTrie>> parts;
  for (auto& [character, next] : root.next) parts.push_back(std::move(next));
  while (!parts.empty()) {
    std::unique_ptr<NameTrie> part = std::move(parts.back());
    parts.pop_back();
    for (auto& [character, next] : part->next) parts.push_back(std::move(next));
  }
  return {Term::literal("\""), Term::of_rule(start)};
}

Result<Sequence> SchemaRules::other_pair(const ExpandedNode& expanded, const ObjectProperties& properties) {
  const JsonDocument* owner = expanded.parts.empty() ? nullptr : expanded.parts.front().schema;
  Sequence pair;
  if (properties.other_pattern) {
    DI_ASSIGN_OR_RETURN(const Regex regex, parse_regex(*properties.other_pattern, RegexUse::kSearch));
    pair = json_text_.whole(regex);
    pair.insert(pair.begin(), Term::literal("\""));
    pair.push_back(Term::literal("\""));
  } else if (properties.other_names) {
    DI_ASSIGN_OR_RETURN(const ExpandedNode names, graph_.expand(*properties.other_names));
    if (names.impossible) return Sequence{Term::one_of(CodepointSet())};
    if (!names.alternatives.empty()) return graph_.refused(owner, "anyOf and oneOf in propertyNames are not supported");
    DI_ASSIGN_OR_RETURN(const SchemaFacts facts, gather_facts(graph_, names.parts, options_.strict));
    if ((facts.types & kStringType) == 0) return Sequence{Term::one_of(CodepointSet())};
    if (facts.constant != nullptr || facts.enumeration != nullptr)
      return graph_.refused(owner, "enum and const in propertyNames are not supported; list the properties");
    DI_ASSIGN_OR_RETURN(pair, string_content(names, facts, json_text_, {}, "\""));
    pair.insert(pair.begin(), Term::literal("\""));
  } else {
    std::vector<std::string> names;
    for (const ObjectProperty& property : properties.listed) names.push_back(property.name);
    pair = key_other_than(names);
  }
  pair.push_back(Term::literal(":"));
  pair.push_back(space());
  pair.push_back(Term::of_rule(value(properties.other)));
  return Sequence{Term::of_rule(rules_.add({std::move(pair)}))};
}

Result<Choices> SchemaRules::objects(const ExpandedNode& expanded, const SchemaFacts& facts) {
  const JsonDocument* owner = expanded.parts.empty() ? nullptr : expanded.parts.front().schema;
  DI_ASSIGN_OR_RETURN(const ObjectProperties properties, list_properties(expanded, facts, options_.strict));
  const auto listed = static_cast<int64_t>(properties.listed.size());
  int64_t least = facts.least_properties;
  const int64_t most = facts.most_properties;
  if (most >= 0 && most < least) return Choices();
  if (least > listed + 1 && properties.others)
    return graph_.refused(
        owner,
        fmt::format("minProperties of {} with names of the model's choice is not supported; free names count once",
                    least));
  const auto required =
      static_cast<int64_t>(std::count_if(properties.listed.begin(), properties.listed.end(),
                                         [](const ObjectProperty& property) { return property.required; }));
  if (least <= required) least = 0;
  if (most > kMostProperties)
    return graph_.refused(owner, fmt::format("maxProperties above {} is not supported", kMostProperties));
  // Counts beyond `top` make no difference.
  const int64_t top = most >= 0 ? std::min(most, listed) : std::max<int64_t>(least, 1);
  if ((top + 1) * (listed + 1) > 20'000)
    return graph_.refused(owner, "minProperties or maxProperties with so many properties is not supported");

  Sequence other;
  if (properties.others) {
    DI_ASSIGN_OR_RETURN(other, other_pair(expanded, properties));
  }
  const Sequence comma{Term::literal(","), space()};
  Sequence comma_other = comma;
  comma_other.insert(comma_other.end(), other.begin(), other.end());
  const int more_others = properties.others ? rules_.add({comma_other}) : -1;

  // state[c]: what may follow when properties i.. remain and c were written; from the last property to the first.
  std::vector<int> state(static_cast<size_t>(top) + 1);
  for (int64_t count = 0; count <= top; ++count) {
    Choices choices;
    const int64_t missing = std::max<int64_t>(least - count, 0);
    const int64_t room = most < 0 ? -1 : most - count;
    if (properties.others && room != 0 && missing <= 1) {
      if (count > 0) {
        choices.push_back({Term::of_rule(more_others, missing, room)});
      } else {
        Sequence first = other;
        first.push_back(Term::of_rule(more_others, 0, room < 0 ? -1 : room - 1));
        choices.push_back(std::move(first));
      }
    } else if (count > 0 && missing == 0) {
      choices.push_back({});
    }
    state[static_cast<size_t>(count)] = rules_.add(std::move(choices));
  }
  for (int64_t i = listed - 1; i >= 0; --i) {
    const ObjectProperty& property = properties.listed[static_cast<size_t>(i)];
    const int member = rules_.add(
        {{Term::literal(json_text(JsonDocument(property.name)) + ":"), space(), Term::of_rule(value(property.value))}});
    std::vector<int> before(state.size());
    for (int64_t count = 0; count <= top; ++count) {
      Choices choices;
      if (most < 0 || count < most) {
        Sequence with = count > 0 ? comma : Sequence();
        with.push_back(Term::of_rule(member));
        with.push_back(Term::of_rule(state[static_cast<size_t>(std::min(count + 1, top))]));
        choices.push_back(std::move(with));
      }
      if (!property.required) choices.push_back({Term::of_rule(state[static_cast<size_t>(count)])});
      before[static_cast<size_t>(count)] = rules_.add(std::move(choices));
    }
    state = std::move(before);
  }
  Choices choices{{Term::literal("{"), space(), Term::of_rule(state[0]), space(), Term::literal("}")}};
  if (required == 0 && facts.least_properties == 0)
    choices.push_back({Term::literal("{"), space(), Term::literal("}")});
  return choices;
}

}  // namespace deepinfer
