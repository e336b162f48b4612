#include "text/strict_schema.h"

#include <array>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace deepinfer {
namespace {

// Kept where they stand.  Everything else but the keywords handled below is dropped.
constexpr std::array<std::string_view, 16> kKeptKeywords = {"type",
                                                            "title",
                                                            "description",
                                                            "enum",
                                                            "const",
                                                            "default",
                                                            "$ref",
                                                            "pattern",
                                                            "format",
                                                            "minimum",
                                                            "maximum",
                                                            "exclusiveMinimum",
                                                            "exclusiveMaximum",
                                                            "multipleOf",
                                                            "$id",
                                                            "$schema"};

bool is_kept(std::string_view key) {
  for (const std::string_view kept : kKeptKeywords) {
    if (key == kept) return true;
  }
  return false;
}

bool has_type(const Json& schema, std::string_view name) {
  const auto type = schema.find("type");
  if (type == schema.end()) return false;
  if (type->is_string()) return type->get_ref<const std::string&>() == name;
  for (const Json& one : *type) {
    if (one.is_string() && one.get_ref<const std::string&>() == name) return true;
  }
  return false;
}

class Normalizer {
 public:
  explicit Normalizer(StrictUse use) : use_(use) {}

  // Recursion follows the nesting of the value, which parse_json bounds.  Throws StrictError (inside this file only).
  Json normalize(const Json& schema) const {
    if (!schema.is_object()) throw StrictError{"expected an object", true};
    if (!schema.contains("type") && !schema.contains("anyOf") && !schema.contains("$ref")) {
      throw StrictError{"one of `type`, `anyOf`, `$ref` field is required", true};
    }
    const bool object = has_type(schema, "object");
    if (has_type(schema, "array") && !schema.contains("items")) throw StrictError{"missing field `items`", true};

    Json out = Json::object();
    for (const auto& [key, value] : schema.get_ref<const Json::object_t&>()) {
      if (is_kept(key)) {
        out[key] = value;
      } else if (key == "items") {
        out[key] = normalize(value);
      } else if (key == "anyOf") {
        out[key] = normalize_list(value);
      } else if (key == "$defs" || key == "definitions" || (key == "properties" && object)) {
        out[key] = normalize_map(value);
      }
    }
    if (object) close_object(schema, out);
    return out;
  }

 private:
  Json normalize_list(const Json& list) const {
    if (!list.is_array()) throw StrictError{"expected an array", true};
    Json out = Json::array();
    for (const Json& element : list) out.push_back(normalize(element));
    return out;
  }

  Json normalize_map(const Json& map) const {
    if (!map.is_object()) throw StrictError{"expected an object", true};
    Json out = Json::object();
    for (const auto& [key, value] : map.get_ref<const Json::object_t&>()) append_member(out, key, normalize(value));
    return out;
  }

  void close_object(const Json& schema, Json& out) const {
    if (!out.contains("properties")) out["properties"] = Json::object();
    const Json& properties = out["properties"];
    if (properties.empty() && use_ == StrictUse::kResponse) {
      throw StrictError{"An object with no properties is not allowed."};
    }
    if (const auto required = schema.find("required"); required != schema.end()) {
      std::unordered_set<std::string_view> names;
      bool matches = required->is_array();
      if (matches) {
        for (const Json& name : *required) {
          matches = matches && name.is_string() && names.insert(name.get_ref<const std::string&>()).second;
        }
      }
      matches = matches && names.size() == properties.size();
      for (const auto& [key, value] : properties.get_ref<const Json::object_t&>()) {
        matches = matches && names.contains(key);
      }
      if (!matches) throw StrictError{"Required properties must match all properties in the object"};
    }
    if (const auto more = schema.find("additionalProperties"); more != schema.end() && *more != false) {
      throw StrictError{"additionalProperties should not be true"};
    }
    Json required = Json::array();
    for (const auto& [key, value] : properties.get_ref<const Json::object_t&>()) required.push_back(key);
    out["additionalProperties"] = false;
    out["required"] = std::move(required);
  }

  StrictUse use_;
};

}  // namespace

std::variant<Json, StrictError> normalize_strict_schema(const Json& schema, StrictUse use) {
  try {
    return Normalizer(use).normalize(schema);
  } catch (StrictError& error) {
    return std::move(error);
  }
}

}  // namespace deepinfer
