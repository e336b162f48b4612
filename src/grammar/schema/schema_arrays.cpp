// Arrays of SchemaRules.
#include <fmt/format.h>

#include "grammar/schema/schema_rules.h"

namespace deepinfer {
namespace {

constexpr int64_t kMostItems = 10'000;

struct ItemSchemas {
  const JsonDocument* prefix = nullptr;  // a list
  const JsonDocument* rest = nullptr;    // null: any
};

// `items` is a schema since 2020-12 and may be a list before it; `additionalItems` belongs to the list.
ItemSchemas item_schemas(const JsonDocument& schema) {
  ItemSchemas found;
  const auto items = schema.find("items");
  if (const auto prefix = schema.find("prefixItems"); prefix != schema.end()) {
    found.prefix = &*prefix;
    if (items != schema.end() && !items->is_array()) found.rest = &*items;
  } else if (items != schema.end() && items->is_array()) {
    found.prefix = &*items;
    if (const auto more = schema.find("additionalItems"); more != schema.end()) found.rest = &*more;
  } else if (items != schema.end()) {
    found.rest = &*items;
  }
  return found;
}

}  // namespace

Result<Choices> SchemaRules::arrays(const ExpandedNode& expanded, const SchemaFacts& facts) {
  const JsonDocument* owner = expanded.parts.empty() ? nullptr : expanded.parts.front().schema;
  size_t prefix = 0;
  bool explicit_rest = false;
  for (const SchemaPart& part : expanded.parts) {
    const ItemSchemas items = item_schemas(*part.schema);
    if (items.prefix != nullptr) prefix = std::max(prefix, items.prefix->size());
    explicit_rest = explicit_rest || items.rest != nullptr;
  }
  if (prefix > static_cast<size_t>(kMostItems)) return graph_.refused(owner, "too many prefixItems");
  const auto item = [&](size_t index) {
    SchemaNode node;
    for (const SchemaPart& part : expanded.parts) {
      const ItemSchemas items = item_schemas(*part.schema);
      if (items.prefix != nullptr && index < items.prefix->size()) {
        node.push_back({&(*items.prefix)[index]});
      } else if (items.rest != nullptr) {
        node.push_back({items.rest});
      }
    }
    return value(node);
  };
  int64_t least = facts.least_items, most = facts.most_items;
  const auto listed = static_cast<int64_t>(prefix);
  if (prefix > 0 && !explicit_rest && options_.strict) most = most < 0 ? listed : std::min(most, listed);
  if (facts.unique_items && (most < 0 || most > 1))
    return graph_.refused(owner, "uniqueItems is supported for arrays of at most one item (maxItems: 1)");
  if (most >= 0 && most < least) return Choices();
  if (least > kMostItems) return graph_.refused(owner, fmt::format("minItems above {} is not supported", kMostItems));
  if (most > kMostItems) return graph_.refused(owner, fmt::format("maxItems above {} is not supported", kMostItems));

  const Sequence comma{Term::literal(","), space()};
  const Term close = Term::literal("]");
  // tails[i]: what follows i items of the prefix, up to the bracket.
  int tail = -1;
  {
    Choices choices;
    if (most < 0 || most > listed) {
      const int rest = item(prefix);
      const int64_t low = std::max<int64_t>(least - listed, 0), high = most < 0 ? -1 : most - listed;
      if (prefix > 0) {
        Sequence more = comma;
        more.push_back(Term::of_rule(rest));
        choices.push_back({Term::of_rule(rules_.add({more}), low, high), space(), close});
      } else {
        Sequence more = comma;
        more.push_back(Term::of_rule(rest));
        choices.push_back({space(), Term::of_rule(rest),
                           Term::of_rule(rules_.add({more}), std::max<int64_t>(low - 1, 0), high < 0 ? -1 : high - 1),
                           space(), close});
        if (low == 0) choices.push_back({space(), close});
      }
    } else if (listed >= least && (most < 0 || listed <= most)) {
      choices.push_back({space(), close});
    }
    tail = rules_.add(std::move(choices));
  }
  for (int64_t i = listed - 1; i >= 0; --i) {
    Choices choices;
    if (most < 0 || i < most) {
      Sequence next = i > 0 ? comma : Sequence{space()};
      next.push_back(Term::of_rule(item(static_cast<size_t>(i))));
      next.push_back(Term::of_rule(tail));
      choices.push_back(std::move(next));
    }
    if (i >= least) choices.push_back({space(), close});
    tail = rules_.add(std::move(choices));
  }
  return Choices{{Term::literal("["), Term::of_rule(tail)}};
}

}  // namespace deepinfer
