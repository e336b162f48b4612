// ConfigFields: typed reads of one JSON object of config.json.  The first failure is kept and later reads do nothing,
// so that a loader reads as a list of keys.  Used by config.cpp only.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/deepseek_v41/config.h"

namespace deepinfer::deepseek_v41 {

class ConfigFields {
 public:
  // path is the object's place in the file, "" for the root.  What is read is appended to values.
  ConfigFields(simdjson::dom::object object, std::string_view path, std::vector<ConfigValue>& values)
      : object_(object), path_(path), values_(&values) {}

  const Status& status() const { return status_; }
  void fail(std::string_view key, std::string_view value, std::string_view allowed);
  bool has(std::string_view key) const;  // present and not null

  // A key that must be there.  Bounds are inclusive.
  int64_t integer(std::string_view key, int64_t low, int64_t high);
  double number(std::string_view key, double low, double high);
  // A key that may be absent.
  int64_t integer_or(std::string_view key, int64_t low, int64_t high, int64_t otherwise);
  std::vector<int64_t> integers(std::string_view key, int64_t low, int64_t high, size_t most);

  // Keys with one supported value.  Absent is allowed unless required.
  void only(std::string_view key, std::string_view value, bool required = false);
  void only(std::string_view key, bool value);
  void only(std::string_view key, double value);

  // A nested object; an empty optional with status() set where it is missing or something else.
  std::optional<ConfigFields> object(std::string_view key);
  void take_status(const ConfigFields& nested) {
    if (status_.ok()) status_ = nested.status();
  }

 private:
  std::optional<simdjson::dom::element> find(std::string_view key, std::string_view allowed);
  std::string name(std::string_view key) const;
  void keep(std::string_view key, std::string value);

  simdjson::dom::object object_;
  std::string path_;
  std::vector<ConfigValue>* values_;
  Status status_;
};

}  // namespace deepinfer::deepseek_v41
