// The two configurations that tests compare with known numbers, and edits of them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/layer_table.h"

namespace deepinfer {

nlohmann::json read_json(const std::string& path);

// config.json of the released model and of the demonstration model.
nlohmann::json flash_json();
nlohmann::json demonstration_json();

deepseek_v41::Config config_of(const nlohmann::json& json);  // which must be right
deepseek_v41::LayerTable table_of(const deepseek_v41::Config& config);

}  // namespace deepinfer
