// The text and the JSON of `deepinfer inspect`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model_summary.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/layer_table.h"
#include "text/json_text.h"

namespace deepinfer::cli {

struct InspectedModel {
  std::filesystem::path folder;
  deepseek_v41::Config config;
  deepseek_v41::LayerTable table;
  std::vector<TensorEntry> tensors;
  size_t files = 0;  // weight files; 0: the folder has none, tensors are what the config asks for
  ModelSummary summary;
};

std::string report_text(const InspectedModel& model);
// One line a tensor: name, dtype, shape, bytes, file.
std::string tensors_text(const InspectedModel& model);
Json report_json(const InspectedModel& model, bool with_tensors);

}  // namespace deepinfer::cli
