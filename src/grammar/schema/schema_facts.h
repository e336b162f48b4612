// SchemaFacts: what the schemas of a node say together, keyword by keyword, once no alternatives are left.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "grammar/schema/number_rules.h"
#include "grammar/schema/schema_graph.h"

namespace deepinfer {

// Sets of JSON types.
enum TypeBit : uint8_t {
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,
  kFractionType = 8,  // numbers that are no integers
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kEveryType = 127,
};
uint8_t type_of(const JsonDocument& value);

struct SchemaFacts {
  uint8_t types = kEveryType;
  // Values of the smallest `enum` or the `const`; every candidate must still be checked against the whole node.
  const JsonDocument* enumeration = nullptr;  // a list
  const JsonDocument* constant = nullptr;
  NumberBounds bounds;
  std::vector<Decimal> steps;  // multipleOf
  int64_t least_length = 0;
  int64_t most_length = -1;
  std::vector<std::string> patterns;  // different ones
  std::vector<std::string> formats;
  int64_t least_items = 0;
  int64_t most_items = -1;
  bool unique_items = false;
  int64_t least_properties = 0;
  int64_t most_properties = -1;
  std::vector<std::string> required;  // each once, in the order of the schemas
};

// `strict`: GrammarSpec::strict.
Result<SchemaFacts> gather_facts(const SchemaGraph& graph, const std::vector<SchemaPart>& parts, bool strict);

}  // namespace deepinfer
