// What a model's own generation_config.json says about sampling; options of the command line overrule it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/status.h"

namespace deepinfer::cli {

struct GenerationDefaults {
  std::optional<float> temperature;  // 0 where the file says do_sample: false
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<int32_t> top_k;
  std::optional<float> repetition_penalty;
  std::vector<int32_t> end_tokens;  // eos_token_id: one id or a list
};

// A file that is not there leaves everything unset.  Corrupt file: names the field, its value and the allowed range.
Result<GenerationDefaults> read_generation_defaults(const std::filesystem::path& model_folder);

}  // namespace deepinfer::cli
