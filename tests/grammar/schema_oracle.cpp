#include "schema_oracle.h"

#include <stdexcept>
#include <string>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

namespace deepinfer {

using Adapter = valijson::adapters::NlohmannJsonAdapter;

struct SchemaOracle::State {
  nlohmann::json document;
  valijson::Schema schema;
};

SchemaOracle::SchemaOracle(const nlohmann::json& schema) : state_(std::make_unique<State>()) {
  if (schema.dump().find("\"prefixItems\"") != std::string::npos)
    throw std::runtime_error("prefixItems is younger than the validator");
  state_->document = schema;
  valijson::SchemaParser().populateSchema(Adapter(state_->document), state_->schema);
}

SchemaOracle::~SchemaOracle() = default;

bool SchemaOracle::valid(const nlohmann::json& value) const {
  valijson::Validator validator;
  return validator.validate(state_->schema, Adapter(value), nullptr);
}

}  // namespace deepinfer
