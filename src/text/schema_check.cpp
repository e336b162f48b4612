#include "text/schema_check.h"

#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "text/pattern_check.h"

// Why not valijson: the release in Debian 12 (1.0) matches every "pattern" with std::regex, whose backtracking a client
// can drive into stack overflow, offers no way to replace it, and knows drafts up to 7 only.

namespace deepinfer {
namespace {

// What a keyword's value must be.
enum class Shape {
  kSchema,
  kSchemaMap,      // object of schemas
  kPatternMap,     // the same, keys are expressions
  kSchemaList,     // non-empty array of schemas
  kItems,          // a schema; before 2020-12 also an array of schemas
  kDependencies,   // object of schemas or string arrays
  kStringListMap,  // object of string arrays
  kType,           // a type name, or a non-empty array of different ones
  kStringSet,      // array of different strings
  kArray,
  kString,
  kPattern,
  kBoolean,
  kNumber,
  kLimit,  // a number; in draft 4 a boolean
  kPositiveNumber,
  kCount,  // a non-negative integer
};

const std::unordered_map<std::string_view, Shape>& keyword_shapes() {
  static const std::unordered_map<std::string_view, Shape> shapes = {
      {"additionalProperties", Shape::kSchema},
      {"unevaluatedProperties", Shape::kSchema},
      {"unevaluatedItems", Shape::kSchema},
      {"propertyNames", Shape::kSchema},
      {"contains", Shape::kSchema},
      {"contentSchema", Shape::kSchema},
      {"not", Shape::kSchema},
      {"if", Shape::kSchema},
      {"then", Shape::kSchema},
      {"else", Shape::kSchema},
      {"items", Shape::kItems},
      {"properties", Shape::kSchemaMap},
      {"$defs", Shape::kSchemaMap},
      {"definitions", Shape::kSchemaMap},
      {"dependentSchemas", Shape::kSchemaMap},
      {"patternProperties", Shape::kPatternMap},
      {"allOf", Shape::kSchemaList},
      {"anyOf", Shape::kSchemaList},
      {"oneOf", Shape::kSchemaList},
      {"prefixItems", Shape::kSchemaList},
      {"dependencies", Shape::kDependencies},
      {"dependentRequired", Shape::kStringListMap},
      {"type", Shape::kType},
      {"required", Shape::kStringSet},
      {"enum", Shape::kArray},
      {"examples", Shape::kArray},
      {"$schema", Shape::kString},
      {"$id", Shape::kString},
      {"$ref", Shape::kString},
      {"$dynamicRef", Shape::kString},
      {"$anchor", Shape::kString},
      {"$dynamicAnchor", Shape::kString},
      {"$comment", Shape::kString},
      {"title", Shape::kString},
      {"description", Shape::kString},
      {"format", Shape::kString},
      {"contentEncoding", Shape::kString},
      {"contentMediaType", Shape::kString},
      {"pattern", Shape::kPattern},
      {"uniqueItems", Shape::kBoolean},
      {"deprecated", Shape::kBoolean},
      {"readOnly", Shape::kBoolean},
      {"writeOnly", Shape::kBoolean},
      {"maximum", Shape::kNumber},
      {"minimum", Shape::kNumber},
      {"exclusiveMaximum", Shape::kLimit},
      {"exclusiveMinimum", Shape::kLimit},
      {"multipleOf", Shape::kPositiveNumber},
      {"maxLength", Shape::kCount},
      {"minLength", Shape::kCount},
      {"maxItems", Shape::kCount},
      {"minItems", Shape::kCount},
      {"maxContains", Shape::kCount},
      {"minContains", Shape::kCount},
      {"maxProperties", Shape::kCount},
      {"minProperties", Shape::kCount},
  };
  return shapes;
}

constexpr std::array<std::string_view, 7> kTypeNames = {"array",  "boolean", "integer", "null",
                                                        "number", "object",  "string"};

// The value as it stands in messages, cut short.
std::string quoted(const Json& value) {
  std::string text = dump_compact(value);
  if (text.size() > 200) text = std::string(value.type_name()) + " value";
  return text;
}

std::string not_of_type(const Json& value, std::string_view type) {
  return quoted(value) + " is not of type \"" + std::string(type) + "\"";
}

std::string percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
      out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Finds members by key in time that does not depend on the object's size, for schemas with many references.
class MemberIndex {
 public:
  const Json* find(const Json& object, const std::string& key) {
    if (object.size() <= 16) {
      const auto member = object.find(key);
      return member == object.end() ? nullptr : &*member;
    }
    auto& members = indexes_[&object];
    if (members.empty()) {
      for (const auto& [name, value] : object.get_ref<const Json::object_t&>()) members.emplace(name, &value);
    }
    const auto member = members.find(key);
    return member == members.end() ? nullptr : member->second;
  }

 private:
  std::unordered_map<const Json*, std::unordered_map<std::string_view, const Json*>> indexes_;
};

// What a JSON pointer ("/a/0/b~1c") leads to, or null.
const Json* follow_pointer(const Json& root, std::string_view pointer, MemberIndex& index) {
  const Json* at = &root;
  while (!pointer.empty()) {
    if (pointer.front() != '/') return nullptr;
    pointer.remove_prefix(1);
    const std::string_view token = pointer.substr(0, pointer.find('/'));
    pointer.remove_prefix(token.size());
    if (at->is_object()) {
      std::string key;
      for (size_t i = 0; i < token.size(); ++i) {
        const bool escape = token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1');
        key += escape ? (token[++i] == '0' ? '~' : '/') : token[i];
      }
      at = index.find(*at, key);
      if (at == nullptr) return nullptr;
    } else if (at->is_array()) {
      if (token.empty() || token.size() > 9 || token.find_first_not_of("0123456789") != std::string_view::npos) {
        return nullptr;
      }
      const size_t place = std::stoul(std::string(token));
      if (place >= at->size()) return nullptr;
      at = &(*at)[place];
    } else {
      return nullptr;
    }
  }
  return at;
}

class SchemaChecker {
 public:
  explicit SchemaChecker(const Json& root) : root_(root) {
    if (!root.is_object()) return;
    const auto draft = root.find("$schema");
    if (draft == root.end() || !draft->is_string()) return;
    const std::string& uri = draft->get_ref<const std::string&>();
    draft4_ = uri.find("draft-04") != std::string::npos;
    item_lists_ = draft4_ || uri.find("draft-0") != std::string::npos || uri.find("2019-09") != std::string::npos;
  }

  Status check() {
    DI_RETURN_IF_ERROR(check_schema_value(root_));
    for (const std::string_view reference : references_) DI_RETURN_IF_ERROR(check_reference(reference));
    return {};
  }

 private:
  // Recursion follows the nesting of the value, which parse_json bounds.
  Status check_schema_value(const Json& schema) {
    if (schema.is_boolean()) return {};
    if (!schema.is_object()) {
      return invalid_argument(quoted(schema) + " is not of types \"boolean\", \"object\"");
    }
    for (const auto& [key, value] : schema.get_ref<const Json::object_t&>()) {
      const auto shape = keyword_shapes().find(key);
      if (shape == keyword_shapes().end()) continue;
      DI_RETURN_IF_ERROR(check_keyword(shape->second, value));
      if (!value.is_string()) continue;
      const std::string& text = value.get_ref<const std::string&>();
      if (key == "$ref" || key == "$dynamicRef") references_.push_back(text);
      if (key == "$anchor" || key == "$dynamicAnchor") anchors_.insert(text);
      if (key == "$id") identifiers_.emplace(text, &schema);
    }
    return {};
  }

  Status check_keyword(Shape shape, const Json& value) {
    switch (shape) {
      case Shape::kSchema:
        return check_schema_value(value);
      case Shape::kItems:
        return value.is_array() && item_lists_ ? check_schema_list(value) : check_schema_value(value);
      case Shape::kSchemaMap:
      case Shape::kPatternMap:
      case Shape::kDependencies:
      case Shape::kStringListMap:
        return check_map(shape, value);
      case Shape::kSchemaList:
        if (!value.is_array()) return invalid_argument(not_of_type(value, "array"));
        if (value.empty()) return invalid_argument("[] has less than 1 item");
        return check_schema_list(value);
      case Shape::kType:
        return check_type(value);
      case Shape::kStringSet:
        return check_string_set(value);
      case Shape::kArray:
        return value.is_array() ? Status() : invalid_argument(not_of_type(value, "array"));
      case Shape::kString:
        return value.is_string() ? Status() : invalid_argument(not_of_type(value, "string"));
      case Shape::kPattern:
        if (!value.is_string()) return invalid_argument(not_of_type(value, "string"));
        return check_expression(value.get_ref<const std::string&>());
      case Shape::kBoolean:
        return value.is_boolean() ? Status() : invalid_argument(not_of_type(value, "boolean"));
      case Shape::kLimit:
        if (draft4_ && value.is_boolean()) return {};
        return value.is_number() ? Status() : invalid_argument(not_of_type(value, "number"));
      case Shape::kNumber:
        return value.is_number() ? Status() : invalid_argument(not_of_type(value, "number"));
      case Shape::kPositiveNumber:
        if (!value.is_number()) return invalid_argument(not_of_type(value, "number"));
        if (!(value.get<double>() > 0)) {
          return invalid_argument(quoted(value) + " is less than or equal to the minimum of 0");
        }
        return {};
      case Shape::kCount:
        return check_count(value);
    }
    return {};
  }

  Status check_schema_list(const Json& list) {
    for (const Json& element : list) DI_RETURN_IF_ERROR(check_schema_value(element));
    return {};
  }

  Status check_map(Shape shape, const Json& map) {
    if (!map.is_object()) return invalid_argument(not_of_type(map, "object"));
    for (const auto& [key, value] : map.get_ref<const Json::object_t&>()) {
      if (shape == Shape::kPatternMap) DI_RETURN_IF_ERROR(check_expression(key));
      const bool strings = shape == Shape::kStringListMap || (shape == Shape::kDependencies && value.is_array());
      DI_RETURN_IF_ERROR(strings ? check_string_set(value) : check_schema_value(value));
    }
    return {};
  }

  static Status check_expression(const std::string& pattern) {
    if (check_pattern(pattern).ok()) return {};
    return invalid_argument(quoted(Json(pattern)) + " is not a \"regex\"");
  }

  static bool is_type_name(const Json& value) {
    if (!value.is_string()) return false;
    for (const std::string_view name : kTypeNames) {
      if (value.get_ref<const std::string&>() == name) return true;
    }
    return false;
  }

  static Status check_type(const Json& value) {
    bool valid = is_type_name(value);
    if (value.is_array() && !value.empty()) {
      valid = true;
      std::unordered_set<std::string_view> seen;
      for (const Json& name : value) {
        valid = valid && is_type_name(name) && seen.insert(name.get_ref<const std::string&>()).second;
      }
    }
    if (valid) return {};
    return invalid_argument(quoted(value) + " is not valid under any of the schemas listed in the 'anyOf' keyword");
  }

  static Status check_string_set(const Json& list) {
    if (!list.is_array()) return invalid_argument(not_of_type(list, "array"));
    std::unordered_set<std::string_view> seen;
    for (const Json& element : list) {
      if (!element.is_string()) return invalid_argument(not_of_type(element, "string"));
      if (!seen.insert(element.get_ref<const std::string&>()).second) {
        return invalid_argument(quoted(list) + " has non-unique elements");
      }
    }
    return {};
  }

  static Status check_count(const Json& value) {
    const bool integer = value.is_number_integer() ||
                         (value.is_number_float() && value.get<double>() == std::trunc(value.get<double>()));
    if (!integer) return invalid_argument(not_of_type(value, "integer"));
    if (value.get<double>() < 0) return invalid_argument(quoted(value) + " is less than the minimum of 0");
    return {};
  }

  Status check_reference(std::string_view reference) {
    const size_t hash = reference.find('#');
    const std::string_view resource = reference.substr(0, hash);
    const std::string fragment =
        hash == std::string_view::npos ? std::string() : percent_decoded(reference.substr(hash + 1));
    const Json* base = &root_;
    if (!resource.empty()) {
      if (resource.find("://json-schema.org/") != std::string_view::npos) return {};
      const auto known = identifiers_.find(resource);
      if (known == identifiers_.end())
        return invalid_argument("Resource '" + std::string(resource) + "' is not present");
      base = known->second;
    }
    if (fragment.empty()) return {};
    if (fragment.front() != '/') {
      if (anchors_.contains(fragment)) return {};
      return invalid_argument("Anchor '" + fragment + "' does not exist");
    }
    if (follow_pointer(*base, fragment, index_) != nullptr) return {};
    return invalid_argument("Pointer '" + fragment + "' does not exist");
  }

  const Json& root_;
  MemberIndex index_;
  bool draft4_ = false;
  bool item_lists_ = false;
  std::vector<std::string_view> references_;
  std::unordered_set<std::string_view> anchors_;
  std::unordered_map<std::string_view, const Json*> identifiers_;
};

}  // namespace

Status check_schema(const Json& schema) {
  return SchemaChecker(schema).check();
}

}  // namespace deepinfer
