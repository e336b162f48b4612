#include "models/deepseek_v41/deepseek_v41.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/bounded_file.h"
#include "models/deepseek_v41/engram_token_map.h"
#include "models/deepseek_v41/row_plan.h"
#include "models/deepseek_v41/tensors.h"

namespace deepinfer::deepseek_v41 {
namespace {

// From the folder's engram_token_map.json, else from the tokenizer's tokens.
Result<EngramTokenMap> load_token_map(const Config& config, const ModelOptions& options) {
  const std::filesystem::path path = options.folder / "engram_token_map.json";
  std::error_code error;
  EngramTokenMap map;
  std::string source = path.string();
  if (std::filesystem::exists(path, error)) {
    DI_ASSIGN_OR_RETURN(const std::string text, read_bounded_file(path, kMaxTokenMapFileBytes));
    DI_ASSIGN_OR_RETURN(map, parse_engram_token_map(text, source));
  } else {
    source = (options.folder / "tokenizer.json").string();
    if (!options.tokens)
      return not_found(fmt::format("{}: not there, and no tokenizer was given to build it from", path.string()));
    DI_ASSIGN_OR_RETURN(const std::vector<TokenSpelling> tokens, options.tokens());
    map = build_engram_token_map(tokens);
  }
  // The hash takes the number from the config, and the tables were trained with the number of the map.
  if (map.count != config.engram_compressed_vocab_size)
    return corrupt_file(fmt::format("{}: {} token classes, but engram_compressed_vocab_size of config.json is {}",
                                    source, map.count, config.engram_compressed_vocab_size));
  return map;
}

}  // namespace

DeepseekV41::DeepseekV41(Config config, LayerTable table, Checkpoint checkpoint, int64_t ring_slack, Ops& ops)
    : config_(std::move(config)),
      table_(std::move(table)),
      groups_(make_cache_groups(config_, table_, ring_slack)),
      checkpoint_(std::move(checkpoint)),
      ops_(ops) {
  info_.type = kModelType;
  info_.vocabulary = static_cast<int32_t>(config_.vocab_size);
  info_.max_context = config_.max_position_embeddings;
  info_.bos_token = config_.bos_token_id;
  info_.eos_token = config_.eos_token_id;
  info_.draft_tokens = config_.dspark_block_size;
  info_.choices = {.routers = table_.layer_count,
                   .experts = config_.num_experts_per_tok,
                   .indexers = table_.indexers_before(table_.layer_count),
                   .selected = config_.index_topk};
  info_.min_replay_tokens = min_replay_tokens(config_, table_);
}

Result<std::unique_ptr<DeepseekV41>> DeepseekV41::open(const ModelOptions& options, Ops& ops) {
  DI_ASSIGN_OR_RETURN(Config config, load_config(options.folder));
  auto table = make_layer_table(config);
  if (!table.ok()) return table.status().with_context((options.folder / "config.json").string());
  StepLimits limits = options.limits;
  if (limits.max_context == 0) limits.max_context = config.max_position_embeddings;
  if (limits.max_context < 1 || limits.max_context > config.max_position_embeddings)
    return invalid_argument(fmt::format("max_context is {}; allowed: 1 to {}, the model's own", limits.max_context,
                                        config.max_position_embeddings));
  if (limits.ring_slack < 0)
    return invalid_argument(fmt::format("ring_slack is {}; allowed: 0 or more", limits.ring_slack));
  const int64_t verify_rows = limits.sequences * (1 + config.dspark_block_size);
  limits.rows = std::max(limits.rows, verify_rows);
  if (limits.logit_rows == 0) limits.logit_rows = verify_rows + limits.prompt_logit_rows;
  DI_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(options.folder.string()));
  std::unique_ptr<DeepseekV41> model(
      new DeepseekV41(std::move(config), std::move(table).value(), std::move(checkpoint), limits.ring_slack, ops));
  model->allow_extra_tensors_ = options.allow_extra_tensors;
  DI_ASSIGN_OR_RETURN(model->weights_,
                      bind_weights(model->config_, model->table_, model->checkpoint_, options.allow_extra_tensors));
  if (!model->config_.engram_layer_ids.empty()) {
    DI_ASSIGN_OR_RETURN(EngramTokenMap map, load_token_map(model->config_, options));
    auto hash = EngramHash::make(model->config_, std::move(map.classes));
    if (!hash.ok()) return hash.status().with_context(options.folder.string());
    model->hash_ = std::move(hash).value();
  }
  DI_ASSIGN_OR_RETURN(const WeightPlan plan, WeightPlan::make(model->config_, model->table_, options.placement, ops));
  // The largest first: where it has no room, nothing else matters.
  DI_ASSIGN_OR_RETURN(model->rooms_, WeightRooms::allocate(plan, ops));
  model->expect_single_engram_rows(model->checkpoint_);
  DI_ASSIGN_OR_RETURN(Activations activations, Activations::plan(model->config_, limits, ops.memory()));
  DI_RETURN_IF_ERROR(ops.prepare(ops_limits(model->config_, limits)));
  if (model->rooms_.copies()) {
    DI_ASSIGN_OR_RETURN(model->weights_, model->rooms_.fill(model->config_, model->table_, model->checkpoint_, ops));
  }
  const ForwardParts parts{model->config_, model->table_, model->groups_, model->hash_, model->weights_, ops};
  model->forward_ = std::make_unique<Forward>(parts, limits, std::move(activations));
  model->work_ = std::make_unique<StepWorkCount>(model->config_, model->table_, model->weights_);
  return model;
}

void DeepseekV41::expect_single_engram_rows(const Checkpoint& checkpoint) const {
  if (rooms_.plan().place_of(TensorUse::kEngramTable) == WeightPlace::kMapped) expect_single_rows(config_, checkpoint);
}

bool DeepseekV41::resumable(const WrittenRows& written, int64_t position, const RowRule& rule) const {
  return deepseek_v41::resumable(config_, table_, groups_, written, position, rule);
}

int64_t DeepseekV41::draft_context_start(const RowRule& rule) const {
  return layer_cut(config_, table_, rule, table_.layer_count - 1).arrive;
}

}  // namespace deepinfer::deepseek_v41
