// Whether a value satisfies schemas, to the letter of JSON Schema: for enum, const, oneOf and property names.
#include <algorithm>

#include "grammar/schema/schema_rules.h"
#include "grammar/schema/string_formats.h"
#include "grammar/work_budget.h"

namespace deepinfer {
namespace {

// Depth of values is bounded by the reader of documents; only schemas that refer to themselves without end reach this.
constexpr int kMostDepth = 200;
// Nodes of an expression times the cube of a text's length: some tenths of a second.
constexpr double kMostPatternWork = 2e8;

bool too_long(const Regex& regex, size_t characters) {
  const auto length = static_cast<double>(characters + 1);
  return static_cast<double>(regex.nodes.size()) * length * length * length > kMostPatternWork;
}

bool equal(const JsonDocument& a, const JsonDocument& b) {
  if (a.is_number() && b.is_number()) {
    const std::optional<Decimal> x = decimal_of(a), y = decimal_of(b);
    return x && y ? *x == *y : a == b;
  }
  if (a.type() != b.type()) return false;
  if (a.is_array()) return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), equal);
  if (a.is_object()) {
    if (a.size() != b.size()) return false;
    for (const auto& [key, value] : a.items()) {
      const auto other = b.find(key);
      if (other == b.end() || !equal(value, *other)) return false;
    }
    return true;
  }
  return a == b;
}

}  // namespace

Result<bool> SchemaRules::matches(const JsonDocument& value, const SchemaNode& node, int depth) {
  WorkBudget::check();
  if (depth > kMostDepth)
    return graph_.refused(node.empty() ? nullptr : node[0].schema, "a schema that refers to itself without end");
  DI_ASSIGN_OR_RETURN(const ExpandedNode expanded, graph_.expand(node));
  if (expanded.impossible) return false;
  for (const SchemaAlternatives& alternatives : expanded.alternatives) {
    int fitting = 0;
    for (const JsonDocument& option : *alternatives.options) {
      DI_ASSIGN_OR_RETURN(const bool fits, matches(value, {{&option}}, depth + 1));
      fitting += fits ? 1 : 0;
    }
    if (alternatives.exactly_one ? fitting != 1 : fitting == 0) return false;
  }
  return matches_facts(value, expanded, depth);
}

Result<bool> SchemaRules::matches_facts(const JsonDocument& value, const ExpandedNode& expanded, int depth) {
  DI_ASSIGN_OR_RETURN(const SchemaFacts facts, gather_facts(graph_, expanded.parts, false));
  if ((facts.types & type_of(value)) == 0) return false;
  for (const SchemaPart& part : expanded.parts) {
    if (const auto constant = part.schema->find("const"); constant != part.schema->end() && !equal(*constant, value))
      return false;
    if (const auto list = part.schema->find("enum"); list != part.schema->end())
      if (std::none_of(list->begin(), list->end(), [&](const JsonDocument& other) { return equal(other, value); }))
        return false;
  }
  if (value.is_number()) {
    const std::optional<Decimal> number = decimal_of(value);
    if (!number)
      return graph_.refused(expanded.parts.empty() ? nullptr : expanded.parts[0].schema,
                            "a value has more than 30 digits");
    const NumberBounds& bounds = facts.bounds;
    if (bounds.least && (*number < *bounds.least || (bounds.above_least && *number == *bounds.least))) return false;
    if (bounds.most && (*number > *bounds.most || (bounds.below_most && *number == *bounds.most))) return false;
    for (const Decimal& step : facts.steps)
      if (!is_multiple(*number, step)) return false;
  } else if (value.is_string()) {
    std::vector<uint32_t> characters;
    read_utf8(value.get_ref<const std::string&>(), characters);
    const auto length = static_cast<int64_t>(characters.size());
    if (length < facts.least_length || (facts.most_length >= 0 && length > facts.most_length)) return false;
    std::vector<std::pair<std::string, RegexUse>> expressions;
    for (const std::string& pattern : facts.patterns) expressions.emplace_back(pattern, RegexUse::kSearch);
    for (const std::string& format : facts.formats) {
      const std::optional<std::string_view> pattern = format_pattern(format);
      const JsonDocument* owner = expanded.parts[0].schema;
      if (!pattern) return graph_.refused(owner, "the format " + format + " is not supported");
      expressions.emplace_back(std::string(*pattern), RegexUse::kWhole);
    }
    for (const auto& [expression, use] : expressions) {
      DI_ASSIGN_OR_RETURN(const Regex regex, parse_regex(expression, use));
      if (too_long(regex, characters.size()))
        return graph_.refused(expanded.parts[0].schema, "so long a value beside such a pattern is not supported");
      if (!matches_regex(regex, characters)) return false;
    }
  } else if (value.is_array()) {
    const auto items = static_cast<int64_t>(value.size());
    if (items < facts.least_items || (facts.most_items >= 0 && items > facts.most_items)) return false;
    if (facts.unique_items)
      for (size_t i = 0; i < value.size(); ++i)
        for (size_t j = i + 1; j < value.size(); ++j)
          if (equal(value[i], value[j])) return false;
    for (const SchemaPart& part : expanded.parts) {
      const JsonDocument& schema = *part.schema;
      const auto list = schema.find("items");
      const bool old_list = list != schema.end() && list->is_array();
      const auto prefix = schema.contains("prefixItems") ? schema.find("prefixItems") : old_list ? list : schema.end();
      const auto rest = old_list ? schema.find("additionalItems") : list;
      for (size_t i = 0; i < value.size(); ++i) {
        const JsonDocument* mine = nullptr;
        if (prefix != schema.end() && i < prefix->size()) {
          mine = &(*prefix)[i];
        } else if (rest != schema.end()) {
          mine = &*rest;
        }
        if (mine == nullptr) continue;
        DI_ASSIGN_OR_RETURN(const bool fits, matches(value[i], {{mine}}, depth + 1));
        if (!fits) return false;
      }
    }
  } else if (value.is_object()) {
    const auto count = static_cast<int64_t>(value.size());
    if (count < facts.least_properties || (facts.most_properties >= 0 && count > facts.most_properties)) return false;
    for (const std::string& name : facts.required)
      if (!value.contains(name)) return false;
    for (const SchemaPart& part : expanded.parts) {
      const JsonDocument& schema = *part.schema;
      const auto properties = schema.find("properties");
      const auto patterns = schema.find("patternProperties");
      const auto others = schema.find("additionalProperties");
      const auto names = schema.find("propertyNames");
      for (const auto& [name, member] : value.items()) {
        SchemaNode mine;
        if (properties != schema.end())
          if (const auto property = properties->find(name); property != properties->end()) mine.push_back({&*property});
        if (patterns != schema.end()) {
          std::vector<uint32_t> characters;
          read_utf8(name, characters);
          for (const auto& [pattern, sub] : patterns->items()) {
            DI_ASSIGN_OR_RETURN(const Regex regex, parse_regex(pattern, RegexUse::kSearch));
            if (too_long(regex, characters.size()))
              return graph_.refused(&schema, "so long a name beside such a pattern is not supported");
            if (matches_regex(regex, characters)) mine.push_back({&sub});
          }
        }
        if (mine.empty() && others != schema.end()) mine.push_back({&*others});
        DI_ASSIGN_OR_RETURN(const bool fits, matches(member, mine, depth + 1));
        if (!fits) return false;
        if (names == schema.end()) continue;
        DI_ASSIGN_OR_RETURN(const bool named, matches(JsonDocument(name), {{&*names}}, depth + 1));
        if (!named) return false;
      }
    }
  }
  return true;
}

}  // namespace deepinfer
