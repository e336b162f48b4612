// Typed access to the fields of a request body.  Inside text/protocol only: failures are thrown as RequestError and
// turned into a value by the public parse functions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/out_of_memory.h"
#include "text/json_text.h"
#include "text/protocol/request_error.h"

namespace deepinfer {

[[noreturn]] void fail_body(std::string_view message);  // a wrong shape
[[noreturn]] void fail_request(std::string message);    // a broken rule

// "a string", "null", "an object", ... for messages.
std::string_view json_kind(const Json& value);

class Fields {
 public:
  // `what` names the object in messages ("message", "tool").  Fails unless `value` is an object.
  Fields(const Json& value, std::string_view what);

  bool has(std::string_view key) const { return object_->contains(std::string(key)); }  // null or not
  // Null counts as absent.
  const Json* find(std::string_view key) const;
  // Fails when the key is absent; null is returned like any value.
  const Json& at(std::string_view key) const;

  std::optional<std::string> string(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<float> number(std::string_view key) const;
  std::optional<uint32_t> u32(std::string_view key) const;
  std::optional<uint64_t> u64(std::string_view key) const;
  // Numbers of a range; `range` spells it in the error.
  std::optional<int64_t> integer_in(std::string_view key, int64_t lowest, int64_t highest) const;
  std::optional<float> number_in(std::string_view key, float lowest, float highest, std::string_view range) const;
  std::optional<Fields> object(std::string_view key, std::string_view what) const;
  const Json* array(std::string_view key) const;

  const std::string& required_string(std::string_view key) const;

  // The place of `value` in `allowed`; fails when it is not there.
  static size_t one_of(std::string_view value, std::initializer_list<std::string_view> allowed);

 private:
  const Json* object_;
  std::string_view what_;
};

const std::string& as_string(const Json& value, std::string_view what);
const Json& as_array(const Json& value, std::string_view what);

// Runs `parse(const Json&)` on a body and turns what it throws into an error value; too little memory is status 503.
template <typename T, typename Parse>
RequestOr<T> parse_body(std::string_view body, Parse&& parse) {
  std::optional<RequestOr<T>> answer;
  const Status memory = or_out_of_memory(
      [&] { return "a request of " + std::to_string(body.size()) + " bytes"; },
      [&]() -> Status {
        try {
          Result<Json> json = parse_json(body);
          if (json.status().code() == StatusCode::kResourceExhausted) return json.status();
          if (!json.ok())
            throw RequestError{RequestError::Kind::kJson, "invalid JSON request: " + json.status().message()};
          answer.emplace(parse(*json));
        } catch (RequestError& error) {
          answer.emplace(std::move(error));
        }
        return {};
      });
  if (!memory.ok()) return RequestError{RequestError::Kind::kRequest, memory.message(), 503};
  return *std::move(answer);
}

}  // namespace deepinfer
