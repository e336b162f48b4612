#include "grammar/schema/schema_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema/number_formats.h"
#include "grammar/schema/string_formats.h"
#include "grammar/work_budget.h"

namespace deepinfer {
namespace {

const JsonDocument* owner_of(const ExpandedNode& expanded) {
  return expanded.parts.empty() ? nullptr : expanded.parts.front().schema;
}

SchemaNode node_of(const std::vector<SchemaPart>& parts) {
  SchemaNode node = parts;
  std::sort(node.begin(), node.end());
  return node;
}

// The node that is left when one option of `alternatives` is chosen.
SchemaNode with_option(const ExpandedNode& expanded, const SchemaAlternatives& alternatives,
                       const JsonDocument& option) {
  std::vector<SchemaPart> parts = expanded.parts;
  for (SchemaPart& part : parts)
    if (part.schema == alternatives.owner) (alternatives.exactly_one ? part.one_of_done : part.any_of_done) = true;
  SchemaNode node = node_of(parts);
  node.push_back({&option});
  return node;
}

}  // namespace

SchemaRules::SchemaRules(RuleSet& rules, SchemaGraph& graph, const SchemaOptions& options)
    : rules_(rules),
      graph_(graph),
      options_(options),
      json_text_(rules, CharacterSpelling::kJson, options.escaped),
      plain_text_(rules, CharacterSpelling::kPlain) {
  const CodepointSet blank{{' ', ' '}}, tab{{'\t', '\t'}};
  if (options.whitespace == JsonWhitespace::kNone) {
    space_ = rules.add({{}});
  } else {
    space_ = rules.add({{},
                        {Term::literal(" ")},
                        {Term::literal("\n"), Term::one_of(blank, 0, 32)},
                        {Term::literal("\n"), Term::one_of(tab, 1, 16)}});
  }
}

std::string SchemaRules::json_text(const JsonDocument& value) const {
  return with_escapes(dump_canonical(value), options_.escaped);
}

// Its depth is bounded by the reader of documents.
void SchemaRules::write_literal(const JsonDocument& value, Sequence& out) const {
  if (!value.is_structured() || value.empty()) {
    out.push_back(Term::literal(json_text(value)));
    return;
  }
  bool first = true;
  for (const auto& [key, member] : value.items()) {
    out.push_back(Term::literal(!first ? "," : value.is_object() ? "{" : "["));
    first = false;
    out.push_back(space());
    if (value.is_object()) {
      out.push_back(Term::literal(json_text(JsonDocument(key)) + ":"));
      out.push_back(space());
    }
    write_literal(member, out);
  }
  out.push_back(space());
  out.push_back(Term::literal(value.is_object() ? "}" : "]"));
}

int SchemaRules::value(const SchemaNode& node) {
  SchemaNode key = node;
  std::sort(key.begin(), key.end());
  const auto [known, fresh] = known_.try_emplace(std::move(key), -1);
  if (fresh) {
    known->second = rules_.add();
    due_.emplace_back(known->second, node);
  }
  return known->second;
}

Status SchemaRules::finish() {
  while (!due_.empty()) {
    WorkBudget::check();
    const auto [rule, node] = std::move(due_.front());
    due_.pop_front();
    DI_RETURN_IF_ERROR(write(rule, node));
    if (rules_.terms() > options_.terms)
      return invalid_argument(graph_.place(&graph_.root()) +
                              fmt::format("needs a grammar of more than {} elements", options_.terms));
  }
  return {};
}

Status SchemaRules::write(int rule, const SchemaNode& node) {
  DI_ASSIGN_OR_RETURN(const ExpandedNode expanded, graph_.expand(node));
  if (expanded.impossible) return {};  // a rule without choices
  if (!expanded.alternatives.empty()) return write_alternatives(rule, expanded);
  DI_ASSIGN_OR_RETURN(const SchemaFacts facts, gather_facts(graph_, expanded.parts, options_.strict));
  for (const std::string& format : facts.formats)
    if (!format_pattern(format) && !is_number_format(format))
      return graph_.refused(owner_of(expanded), fmt::format("the format {} is not supported", format));
  Choices choices;
  const auto add = [&choices](Choices more) {
    for (Sequence& sequence : more) choices.push_back(std::move(sequence));
  };
  if (facts.constant != nullptr || facts.enumeration != nullptr) {
    DI_ASSIGN_OR_RETURN(choices, enumerated(node, facts));
    rules_.set(rule, std::move(choices));
    return {};
  }
  if (facts.types & kStringType) {
    DI_ASSIGN_OR_RETURN(Choices text, strings(expanded, facts));
    add(std::move(text));
  }
  if (facts.types & (kIntegerType | kFractionType)) {
    DI_ASSIGN_OR_RETURN(Choices number, numbers_of(expanded, facts));
    add(std::move(number));
  }
  if (facts.types & kBooleanType) add({{Term::literal("true")}, {Term::literal("false")}});
  if (facts.types & kNullType) add({{Term::literal("null")}});
  if (facts.types & kArrayType) {
    DI_ASSIGN_OR_RETURN(Choices array, arrays(expanded, facts));
    add(std::move(array));
  }
  if (facts.types & kObjectType) {
    DI_ASSIGN_OR_RETURN(Choices object, objects(expanded, facts));
    add(std::move(object));
  }
  rules_.set(rule, std::move(choices));
  return {};
}

Status SchemaRules::write_alternatives(int rule, const ExpandedNode& expanded) {
  const SchemaAlternatives& alternatives = expanded.alternatives.front();
  std::vector<SchemaNode> nodes;
  for (const JsonDocument& option : *alternatives.options) nodes.push_back(with_option(expanded, alternatives, option));
  if (alternatives.exactly_one) {
    if (nodes.size() > 64)
      return graph_.refused(alternatives.owner, "oneOf with more than 64 schemas is not supported");
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (size_t j = 0; j < nodes.size(); ++j) {
        if (i == j) continue;
        DI_ASSIGN_OR_RETURN(const bool apart, disjoint(nodes[i], nodes[j], 0));
        if (!apart)
          return graph_.refused(
              alternatives.owner,
              fmt::format("oneOf is supported where no value fits two of its schemas; {} and {} may overlap "
                          "(anyOf has no such rule)",
                          std::min(i, j), std::max(i, j)));
      }
    }
  }
  Choices choices;
  for (const SchemaNode& node : nodes) choices.push_back({Term::of_rule(value(node))});
  rules_.set(rule, std::move(choices));
  return {};
}

Result<Choices> SchemaRules::enumerated(const SchemaNode& node, const SchemaFacts& facts) {
  Choices choices;
  const auto add = [&](const JsonDocument& candidate) -> Status {
    DI_ASSIGN_OR_RETURN(const bool fits, matches(candidate, node, 0));
    if (!fits) return {};
    Sequence text;
    write_literal(candidate, text);
    choices.push_back(std::move(text));
    return {};
  };
  if (facts.constant != nullptr) {
    DI_RETURN_IF_ERROR(add(*facts.constant));
  } else {
    for (const JsonDocument& candidate : *facts.enumeration) DI_RETURN_IF_ERROR(add(candidate));
  }
  return choices;
}

Result<Choices> SchemaRules::numbers_of(const ExpandedNode& expanded, const SchemaFacts& facts) {
  const JsonDocument* owner = owner_of(expanded);
  const bool whole = (facts.types & kFractionType) == 0;
  NumberBounds bounds = facts.bounds;
  for (const std::string& format : facts.formats) {
    if (!whole && (format == "int32" || format == "int64"))
      return graph_.refused(owner, fmt::format("the format {} is supported for the type integer only", format));
    narrow_to_format(format, bounds);
  }
  std::vector<Decimal> steps;
  const Decimal one{false, "1", ""};
  for (const Decimal& step : facts.steps)
    if (!whole || !is_multiple(one, step)) steps.push_back(step);
  if (steps.size() > 1) return graph_.refused(owner, "more than one multipleOf is not supported");
  if (steps.empty()) return whole ? integers(rules_, bounds) : numbers(rules_, bounds);
  const Decimal& step = steps[0];
  if (whole && step.integral()) {
    std::optional<Choices> choices = integer_multiples(rules_, bounds, floor_of(step));
    if (choices) return std::move(*choices);
    return graph_.refused(owner, "multipleOf with these bounds is not supported");
  }
  const bool power =
      step == one || (step.whole.empty() && step.fraction.find_first_not_of('0') == step.fraction.size() - 1 &&
                      step.fraction.back() == '1');
  if (whole || !power || bounds.bounded())
    return graph_.refused(owner,
                          "multipleOf is supported for integers, and for numbers without bounds as 1, 0.1, 0.01, ...");
  return decimals(rules_, static_cast<int>(step.fraction.size()));
}

Result<bool> SchemaRules::disjoint(const SchemaNode& a, const SchemaNode& b, int depth) {
  WorkBudget::check();
  if (depth > 6) return false;
  DI_ASSIGN_OR_RETURN(const ExpandedNode expanded_a, graph_.expand(a));
  DI_ASSIGN_OR_RETURN(const ExpandedNode expanded_b, graph_.expand(b));
  if (expanded_a.impossible || expanded_b.impossible) return true;
  DI_ASSIGN_OR_RETURN(const SchemaFacts facts_a, gather_facts(graph_, expanded_a.parts, options_.strict));
  DI_ASSIGN_OR_RETURN(const SchemaFacts facts_b, gather_facts(graph_, expanded_b.parts, false));
  const auto none_fits = [&](const SchemaFacts& facts, const SchemaNode& other) -> Result<bool> {
    if (facts.constant != nullptr) {
      DI_ASSIGN_OR_RETURN(const bool fits, matches(*facts.constant, other, 0));
      return !fits;
    }
    for (const JsonDocument& candidate : *facts.enumeration) {
      DI_ASSIGN_OR_RETURN(const bool fits, matches(candidate, other, 0));
      if (fits) return false;
    }
    return true;
  };
  if (facts_a.constant != nullptr || facts_a.enumeration != nullptr) return none_fits(facts_a, b);
  if (facts_b.constant != nullptr || facts_b.enumeration != nullptr) return none_fits(facts_b, a);
  const int common = facts_a.types & facts_b.types;
  if (common == 0) return true;
  const auto beyond = [](int64_t least, int64_t most) { return most >= 0 && least > most; };
  if (common == kObjectType) {
    DI_ASSIGN_OR_RETURN(const ObjectProperties properties_a, list_properties(expanded_a, facts_a, options_.strict));
    DI_ASSIGN_OR_RETURN(const ObjectProperties properties_b, list_properties(expanded_b, facts_b, false));
    const auto find = [](const ObjectProperties& all, const std::string& name) -> const ObjectProperty* {
      for (const ObjectProperty& property : all.listed)
        if (property.name == name) return &property;
      return nullptr;
    };
    for (const ObjectProperty& mine : properties_a.listed) {
      const ObjectProperty* other = find(properties_b, mine.name);
      if (other == nullptr) {
        if (mine.required && !properties_b.others) return true;
        continue;
      }
      if (!mine.required || !other->required) continue;
      DI_ASSIGN_OR_RETURN(const bool apart, disjoint(mine.value, other->value, depth + 1));
      if (apart) return true;
    }
    for (const ObjectProperty& other : properties_b.listed)
      if (other.required && find(properties_a, other.name) == nullptr && !properties_a.others) return true;
    if (beyond(facts_a.least_properties, facts_b.most_properties) ||
        beyond(facts_b.least_properties, facts_a.most_properties))
      return true;
  } else if (common == kArrayType) {
    if (beyond(facts_a.least_items, facts_b.most_items) || beyond(facts_b.least_items, facts_a.most_items)) return true;
  } else if (common == kStringType) {
    if (beyond(facts_a.least_length, facts_b.most_length) || beyond(facts_b.least_length, facts_a.most_length))
      return true;
  } else if ((common & ~(kIntegerType | kFractionType)) == 0) {
    const auto above = [](const NumberBounds& high, const NumberBounds& low) {
      if (!high.least || !low.most) return false;
      return *high.least > *low.most || (*high.least == *low.most && (high.above_least || low.below_most));
    };
    if (above(facts_a.bounds, facts_b.bounds) || above(facts_b.bounds, facts_a.bounds)) return true;
  }
  // Alternatives inside one of the two: all of them must be apart from the other.
  for (const bool first : {true, false}) {
    const ExpandedNode& expanded = first ? expanded_a : expanded_b;
    if (expanded.alternatives.empty()) continue;
    bool all = true;
    for (const JsonDocument& option : *expanded.alternatives[0].options) {
      const SchemaNode chosen = with_option(expanded, expanded.alternatives[0], option);
      DI_ASSIGN_OR_RETURN(const bool apart, first ? disjoint(chosen, b, depth + 1) : disjoint(a, chosen, depth + 1));
      all = all && apart;
      if (!all) break;
    }
    if (all) return true;
  }
  return false;
}

Result<int> schema_rule(RuleSet& rules, std::string_view text, const std::string& what, const SchemaOptions& options,
                        const JsonLimits& limits) {
  DI_ASSIGN_OR_RETURN(const JsonDocument document, read_json_document(text, what, limits));
  if (!document.is_object() && !document.is_boolean())
    return invalid_argument(what + ": a schema is an object or a boolean");
  SchemaGraph graph(document, what);
  SchemaRules schema(rules, graph, options);
  const int root = schema.value({{&document}});
  DI_RETURN_IF_ERROR(schema.finish());
  return root;
}

}  // namespace deepinfer
