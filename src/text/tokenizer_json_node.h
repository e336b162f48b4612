// An object of a tokenizer.json with the path to it, and the messages of its faults.  Used by tokenizer_json*.cpp.
#pragma once

#include <fmt/format.h>
#include <simdjson.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizer_json.h"

namespace deepinfer::tokenizer_json {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

inline constexpr std::size_t kMaxSteps = 64;

// Messages quote at most the first bytes of the file's texts.
std::string in_quotes(std::string_view text);
Status wrong(std::string_view field, std::string_view problem);
Status not_supported(std::string_view field, std::string_view value, std::string_view allowed);
std::string path(std::string_view parent, std::string_view key);

// An object with the path to it, for messages.
struct Node {
  object fields;
  std::string field;

  bool has(const char* key) const {
    element value;
    return fields[key].get(value) == simdjson::SUCCESS && !value.is_null();
  }
  template <typename T>
  Result<T> get(const char* key, const char* type) const {
    T value{};
    if (fields[key].get(value) != simdjson::SUCCESS) return wrong(path(field, key), fmt::format("{} expected", type));
    return value;
  }
  Result<std::string_view> text(const char* key) const { return get<std::string_view>(key, "a string"); }
  Result<bool> flag(const char* key, bool otherwise) const {
    return has(key) ? get<bool>(key, "true or false") : otherwise;
  }
  Result<Node> node(const char* key) const {
    DI_ASSIGN_OR_RETURN(const object value, get<object>(key, "an object"));
    return Node{value, path(field, key)};
  }
  // The objects of a list of steps.
  Result<std::vector<Node>> nodes(const char* key) const {
    DI_ASSIGN_OR_RETURN(const array values, get<array>(key, "an array"));
    if (values.size() > kMaxSteps) return wrong(path(field, key), fmt::format("more than {} entries", kMaxSteps));
    std::vector<Node> result;
    for (const element value : values) {
      object fields_of;
      std::string at = fmt::format("{}[{}]", path(field, key), result.size());
      if (value.get(fields_of) != simdjson::SUCCESS) return wrong(at, "an object expected");
      result.push_back({fields_of, std::move(at)});
    }
    return result;
  }
};

// An option that changes what tokens come out and is not implemented must be absent, null, false or "".
Status must_be_unset(const Node& node, std::initializer_list<const char*> keys);

// tokenizer_json_model.cpp: added_tokens first, then model.
Status read_added_tokens(const Node& root, TokenizerParts& parts);
Status read_model(const Node& model, TokenizerParts& parts);

}  // namespace deepinfer::tokenizer_json
