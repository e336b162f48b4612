// Other weights for a model that is open: checked against the loaded ones, then exchanged without a copy.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/bounded_file.h"
#include "base/check.h"
#include "base/out_of_memory.h"
#include "models/deepseek_v41/deepseek_v41.h"
#include "models/deepseek_v41/engram_token_map.h"
#include "models/deepseek_v41/tensors.h"

namespace deepinfer::deepseek_v41 {
namespace {

struct MappedWeights final : PreparedWeights {
  explicit MappedWeights(Checkpoint opened) : checkpoint(std::move(opened)) {}

  Checkpoint checkpoint;
  Weights weights;  // views of it
};

Status same_configuration(const Config& loaded, const Config& other) {
  const auto& a = loaded.values;
  const auto& b = other.values;
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < a.size() && i < b.size() && a[i].key == b[i].key) {
      if (a[i].value == b[i].value) continue;
      return invalid_argument(
          fmt::format("{} is {}; allowed: {}, as in the loaded model", a[i].key, b[i].value, a[i].value));
    }
    // Keys are read in one order: one of the two is only in one of the files.
    const auto has = [](const std::vector<ConfigValue>& list, const std::string& key) {
      return std::any_of(list.begin(), list.end(), [&](const ConfigValue& value) { return value.key == key; });
    };
    if (i < b.size() && !has(a, b[i].key))
      return invalid_argument(fmt::format("{} is {}; allowed: none, as in the loaded model", b[i].key, b[i].value));
    return invalid_argument(fmt::format("{} is missing; allowed: {}, as in the loaded model", a[i].key, a[i].value));
  }
  return {};
}

// A folder may have no token map of its own: that of the loaded model goes on.
Status same_token_map(const Config& config, const EngramHash& hash, const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "engram_token_map.json";
  std::error_code error;
  if (config.engram_layer_ids.empty() || !std::filesystem::exists(path, error)) return {};
  DI_ASSIGN_OR_RETURN(const std::string text, read_bounded_file(path, kMaxTokenMapFileBytes));
  DI_ASSIGN_OR_RETURN(const EngramTokenMap map, parse_engram_token_map(text, path.string()));
  if (static_cast<int64_t>(map.classes.size()) != config.vocab_size)
    return invalid_argument(
        fmt::format("{}: {} tokens; allowed: {}", path.string(), map.classes.size(), config.vocab_size));
  for (size_t token = 0; token < map.classes.size(); ++token) {
    const int32_t loaded = hash.class_of(static_cast<int32_t>(token));
    if (map.classes[token] != loaded)
      return invalid_argument(fmt::format("{}: token {} has class {}; allowed: {}, as in the loaded model",
                                          path.string(), token, map.classes[token], loaded));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<PreparedWeights>> DeepseekV41::prepare_weights(const std::filesystem::path& folder) const {
  return or_out_of_memory([&] { return fmt::format("the tables of the weights in {}", folder.string()); },
                          [&]() -> Result<std::unique_ptr<PreparedWeights>> {
                            DI_ASSIGN_OR_RETURN(const Config config, load_config(folder));
                            if (const Status status = same_configuration(config_, config); !status.ok())
                              return status.with_context((folder / "config.json").string());
                            DI_RETURN_IF_ERROR(same_token_map(config_, hash_, folder));
                            DI_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(folder.string()));
                            auto prepared = std::make_unique<MappedWeights>(std::move(checkpoint));
                            DI_ASSIGN_OR_RETURN(prepared->weights, bind_weights(config_, table_, prepared->checkpoint,
                                                                                allow_extra_tensors_));
                            expect_single_engram_rows(prepared->checkpoint);
                            return std::unique_ptr<PreparedWeights>(std::move(prepared));
                          });
}

// Views stay valid: a checkpoint's maps do not move with it.  A copy is filled anew, at the same places.
void DeepseekV41::exchange_weights(PreparedWeights& weights) {
  auto* const mapped = dynamic_cast<MappedWeights*>(&weights);
  DI_CHECK(mapped != nullptr, "weights are of the model that prepared them");
  std::swap(checkpoint_, mapped->checkpoint);
  if (!rooms_.copies()) {
    std::swap(weights_, mapped->weights);
  } else {
    Result<Weights> placed = rooms_.fill(config_, table_, checkpoint_, ops_);
    if (!placed.ok() && placed.status().code() != StatusCode::kDeviceFailure) {
      // The copy is half one's and half the other's, and the file that would mend it is lost: as where a mapped page
      // is.
      std::fprintf(stderr, "deepinfer: %s\n", placed.status().message().c_str());
      std::_Exit(kMappedFileLostExitCode);
    }
    if (placed.ok()) weights_ = std::move(placed).value();  // else the device is lost, as Ops::health() tells
  }
}

}  // namespace deepinfer::deepseek_v41
