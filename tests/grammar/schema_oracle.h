// SchemaOracle: another project's validator (valijson), for tests.  Formats are not looked at, patterns by std::regex.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

namespace deepinfer {

class SchemaOracle {
 public:
  // Throws what the validator throws for schemas that it cannot read.
  explicit SchemaOracle(const nlohmann::json& schema);
  ~SchemaOracle();
  bool valid(const nlohmann::json& value) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deepinfer
