#include "text/protocol/request_fields.h"

#include <cstdint>
#include <limits>
#include <utility>

namespace deepinfer {

std::string RequestError::body() const {
  const std::string_view code = http_status < 500 ? "invalid_request_error" : "internal_error";
  std::string out = "{\"error\":{\"message\":";
  append_json_string(out, message);
  out.append(",\"type\":\"").append(code).append("\",\"param\":null,\"code\":\"").append(code).append("\"}}");
  return out;
}

void fail_body(std::string_view message) {
  throw RequestError{RequestError::Kind::kBody, "invalid request body: " + std::string(message)};
}

void fail_request(std::string message) {
  throw RequestError{RequestError::Kind::kRequest, std::move(message)};
}

std::string_view json_kind(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::number_float:
      return "a floating-point number";
    default:
      return "an integer";
  }
}

namespace {

[[noreturn]] void fail_type(std::string_view key, const Json& value, std::string_view expected) {
  std::string message = "`";
  message.append(key).append("`: expected ").append(expected).append(", got ").append(json_kind(value));
  fail_body(message);
}

[[noreturn]] void fail_range(std::string_view key, std::string_view range) {
  const std::string name(key);
  fail_request("Invalid " + name + " value, the valid range of " + name + " is " + std::string(range));
}

}  // namespace

const std::string& as_string(const Json& value, std::string_view what) {
  if (!value.is_string()) fail_type(what, value, "a string");
  return value.get_ref<const std::string&>();
}

const Json& as_array(const Json& value, std::string_view what) {
  if (!value.is_array()) fail_type(what, value, "an array");
  return value;
}

Fields::Fields(const Json& value, std::string_view what) : object_(&value), what_(what) {
  if (!value.is_object()) fail_type(what, value, "an object");
}

const Json* Fields::find(std::string_view key) const {
  const auto member = object_->find(std::string(key));
  return member == object_->end() || member->is_null() ? nullptr : &*member;
}

const Json& Fields::at(std::string_view key) const {
  const auto member = object_->find(std::string(key));
  if (member == object_->end()) {
    fail_body("missing field `" + std::string(key) + "` in " + std::string(what_));
  }
  return *member;
}

std::optional<std::string> Fields::string(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return as_string(*value, key);
}

std::optional<bool> Fields::boolean(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail_type(key, *value, "a boolean");
  return value->get<bool>();
}

std::optional<float> Fields::number(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) fail_type(key, *value, "a number");
  return static_cast<float>(value->get<double>());
}

std::optional<uint64_t> Fields::u64(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned()) fail_type(key, *value, "a non-negative integer");
  return value->get<uint64_t>();
}

std::optional<int64_t> Fields::integer_in(std::string_view key, int64_t lowest, int64_t highest) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) fail_type(key, *value, "an integer");
  const bool fits = !value->is_number_unsigned() || value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  const int64_t number = fits ? value->get<int64_t>() : INT64_MAX;
  if (number < lowest || number > highest)
    fail_range(key, "[" + std::to_string(lowest) + ", " + std::to_string(highest) + "]");
  return number;
}

std::optional<float> Fields::number_in(std::string_view key, float lowest, float highest,
                                       std::string_view range) const {
  const std::optional<float> value = number(key);
  if (value && !(*value >= lowest && *value <= highest)) fail_range(key, range);
  return value;
}

std::optional<uint32_t> Fields::u32(std::string_view key) const {
  const std::optional<uint64_t> value = u64(key);
  if (!value) return std::nullopt;
  if (*value > std::numeric_limits<uint32_t>::max()) {
    fail_body("`" + std::string(key) + "`: " + std::to_string(*value) + " is outside [0, 4294967295]");
  }
  return static_cast<uint32_t>(*value);
}

std::optional<Fields> Fields::object(std::string_view key, std::string_view what) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return Fields(*value, what);
}

const Json* Fields::array(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return nullptr;
  return &as_array(*value, key);
}

const std::string& Fields::required_string(std::string_view key) const {
  return as_string(at(key), key);
}

size_t Fields::one_of(std::string_view value, std::initializer_list<std::string_view> allowed) {
  size_t place = 0;
  for (const std::string_view one : allowed) {
    if (one == value) return place;
    ++place;
  }
  std::string message = "unknown variant `";
  message.append(value.substr(0, 100)).append("`, expected one of");
  for (const std::string_view one : allowed)
    message.append(place-- == allowed.size() ? " `" : ", `").append(one) += '`';
  fail_body(message);
}

}  // namespace deepinfer
