#include "grammar/schema/schema_facts.h"

#include <fmt/format.h>

#include <algorithm>

namespace deepinfer {
namespace {

uint8_t type_bit(const std::string& name) {
  if (name == "null") return kNullType;
  if (name == "boolean") return kBooleanType;
  if (name == "integer") return kIntegerType;
  if (name == "number") return kIntegerType | kFractionType;
  if (name == "string") return kStringType;
  if (name == "array") return kArrayType;
  return kObjectType;
}

// The types that a schema's keywords are about; 0: none.
uint8_t implied_types(const JsonDocument& schema) {
  uint8_t types = 0;
  for (const auto& [key, value] : schema.items()) {
    if (key == "properties" || key == "patternProperties" || key == "additionalProperties" || key == "propertyNames" ||
        key == "required" || key == "minProperties" || key == "maxProperties") {
      types |= kObjectType;
    } else if (key == "items" || key == "prefixItems" || key == "additionalItems" || key == "minItems" ||
               key == "maxItems" || key == "uniqueItems") {
      types |= kArrayType;
    } else if (key == "minLength" || key == "maxLength" || key == "pattern" || key == "format") {
      types |= kStringType;
    } else if (key == "minimum" || key == "maximum" || key == "exclusiveMinimum" || key == "exclusiveMaximum" ||
               key == "multipleOf") {
      types |= kIntegerType | kFractionType;
    }
  }
  return types;
}

int64_t count_of(const JsonDocument& value) {
  return static_cast<int64_t>(std::min(value.get<double>(), 1e15));
}

void raise(int64_t& least, int64_t value) {
  least = std::max(least, value);
}
void lower(int64_t& most, int64_t value) {
  most = most < 0 ? value : std::min(most, value);
}

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

}  // namespace

uint8_t type_of(const JsonDocument& value) {
  if (value.is_null()) return kNullType;
  if (value.is_boolean()) return kBooleanType;
  if (value.is_string()) return kStringType;
  if (value.is_array()) return kArrayType;
  if (value.is_object()) return kObjectType;
  const std::optional<Decimal> number = decimal_of(value);
  return !number || number->integral() ? kIntegerType : kFractionType;
}

Result<SchemaFacts> gather_facts(const SchemaGraph& graph, const std::vector<SchemaPart>& parts, bool strict) {
  SchemaFacts facts;
  bool typed = false;
  uint8_t implied = 0;
  for (const SchemaPart& part : parts) {
    const JsonDocument& schema = *part.schema;
    implied |= implied_types(schema);
    for (const auto& [key, value] : schema.items()) {
      if (key == "type") {
        uint8_t types = 0;
        if (value.is_string()) {
          types = type_bit(value.get_ref<const std::string&>());
        } else {
          for (const JsonDocument& name : value) types |= type_bit(name.get_ref<const std::string&>());
        }
        facts.types &= types;
        typed = true;
      } else if (key == "enum") {
        if (facts.enumeration == nullptr || value.size() < facts.enumeration->size()) facts.enumeration = &value;
        typed = true;
      } else if (key == "const") {
        facts.constant = &value;
        typed = true;
      } else if (key == "minimum" || key == "exclusiveMinimum" || key == "maximum" || key == "exclusiveMaximum" ||
                 key == "multipleOf") {
        const std::optional<Decimal> number = decimal_of(value);
        if (!number) return graph.refused(&schema, fmt::format("{} has more than 30 digits", key));
        const bool exclusive = key[0] == 'e';
        NumberBounds& bounds = facts.bounds;
        if (key == "multipleOf") {
          if (number->negative || *number == Decimal()) return graph.wrong(&schema, "multipleOf must be above 0");
          facts.steps.push_back(*number);
        } else if (key == "minimum" || key == "exclusiveMinimum") {
          if (!bounds.least || *number > *bounds.least) {
            bounds.least = number;
            bounds.above_least = exclusive;
          } else if (*number == *bounds.least) {
            bounds.above_least = bounds.above_least || exclusive;
          }
        } else if (!bounds.most || *number < *bounds.most) {
          bounds.most = number;
          bounds.below_most = exclusive;
        } else if (*number == *bounds.most) {
          bounds.below_most = bounds.below_most || exclusive;
        }
      } else if (key == "minLength") {
        raise(facts.least_length, count_of(value));
      } else if (key == "maxLength") {
        lower(facts.most_length, count_of(value));
      } else if (key == "pattern") {
        add_once(facts.patterns, value.get<std::string>());
      } else if (key == "format") {
        add_once(facts.formats, value.get<std::string>());
      } else if (key == "minItems") {
        raise(facts.least_items, count_of(value));
      } else if (key == "maxItems") {
        lower(facts.most_items, count_of(value));
      } else if (key == "uniqueItems") {
        facts.unique_items = facts.unique_items || value.get<bool>();
      } else if (key == "minProperties") {
        raise(facts.least_properties, count_of(value));
      } else if (key == "maxProperties") {
        lower(facts.most_properties, count_of(value));
      } else if (key == "required") {
        for (const JsonDocument& name : value) add_once(facts.required, name.get<std::string>());
      }
    }
  }
  if (strict && !typed && implied != 0) facts.types &= implied;
  return facts;
}

}  // namespace deepinfer
