#include "models/test_configs.h"

#include <fstream>

namespace deepinfer {

nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  DI_CHECK(file.good(), path);
  return nlohmann::json::parse(file);
}

nlohmann::json flash_json() {
  return read_json(std::string(DEEPINFER_TEST_DATA) + "/model/config_v41_flash.json");
}
nlohmann::json demonstration_json() {
  return read_json(std::string(DEEPINFER_TEST_MODEL) + "/config.json");
}

deepseek_v41::Config config_of(const nlohmann::json& json) {
  return deepseek_v41::parse_config(json.dump()).value();
}
deepseek_v41::LayerTable table_of(const deepseek_v41::Config& config) {
  return deepseek_v41::make_layer_table(config).value();
}

}  // namespace deepinfer
