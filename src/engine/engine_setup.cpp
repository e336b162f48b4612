#include "engine/engine_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <system_error>
#include <utility>

#include "base/topology.h"
#include "engine/memory_plan.h"
#include "engine/model_tokens.h"
#include "engine/speculation/cost_measurement.h"
#include "engine/tiered_prefixes.h"
#include "engine/tiers/disk_kv_store.h"
#include "engine/tiers/layered_kv_store.h"
#include "engine/tiers/memory_kv_store.h"
#include "engine/tiers/tier_identity.h"
#include "models/open_model.h"

namespace deepinfer {
namespace {

constexpr int kPlansInFlight = 2;
constexpr int64_t kPromptLogitRows = 64;  // of a step, for prompts that report on every token
// Sequences that have ended keep their state slot until no plan uses it and their windows are saved.
constexpr int kSlotsInTransit = 2 * kPlansInFlight;

Status check_options(const EngineOptions& o) {
  const auto range = [](const char* field, int64_t value, int64_t least, int64_t most) -> Status {
    if (value >= least && value <= most) return {};
    return invalid_argument(fmt::format("{} is {}; allowed: {} to {}", field, value, least, most));
  };
  constexpr int64_t kMost = int64_t{1} << 50;
  DI_RETURN_IF_ERROR(range("max_context", o.max_context, 0, kMost));
  DI_RETURN_IF_ERROR(range("cache_bytes", o.cache_bytes, 0, kMost));
  DI_RETURN_IF_ERROR(range("max_sequences", o.max_sequences, 1, 4096));
  DI_RETURN_IF_ERROR(range("step_rows", o.step_rows, o.max_sequences, int64_t{1} << 20));
  DI_RETURN_IF_ERROR(range("decode_latency", o.decode_latency.count(), 1, 3'600'000));
  DI_RETURN_IF_ERROR(range("early_snapshot_interval", o.early_snapshot_interval, 128, kMost));
  DI_RETURN_IF_ERROR(range("kv_disk_bytes", o.kv_disk_bytes, kLeastKvDiskBytes, kMost));
  DI_RETURN_IF_ERROR(range("kv_tier_patience", o.kv_tier_patience.count(), 1, 3'600'000));
  if (!o.kv_disk_folder.empty() && o.kv_store)
    return invalid_argument("kv_disk_folder and kv_store are given; allowed: one of them");
  if ((!o.kv_disk_folder.empty() || o.kv_store) && !o.prefix_cache)
    return invalid_argument("kv_disk_folder needs prefix_cache");
  DI_RETURN_IF_ERROR(range("kv_host_bytes", o.kv_host_bytes, 0, kMost));
  if (o.kv_host_bytes > 0 && !o.prefix_cache) return invalid_argument("kv_host_bytes needs prefix_cache");
  if (o.early_snapshot_interval % 128 != 0)
    return invalid_argument(
        fmt::format("early_snapshot_interval is {}; allowed: multiples of 128", o.early_snapshot_interval));
  return {};
}

StepLimits step_limits(const EngineOptions& o) {
  StepLimits limits;
  limits.rows = o.step_rows;
  limits.sequences = o.max_sequences + kSlotsInTransit;
  limits.prompt_logit_rows = kPromptLogitRows;
  limits.max_context = o.max_context;
  // The windows at the last block boundary outlive the answer's last rows by a block, and by what plans in flight
  // write.
  limits.ring_slack = 128 + 8 * (kPlansInFlight + 1);
  return limits;
}

Result<std::unique_ptr<Model>> make_model(const EngineOptions& options, Ops& ops) {
  if (options.make_model) return options.make_model(step_limits(options), ops);
  ModelOptions wanted;
  wanted.folder = options.model;
  wanted.limits = step_limits(options);
  wanted.placement = options.placement;
  wanted.tokens = [folder = options.model] { return load_model_tokens(folder); };
  return open_model(wanted, ops);
}

CacheGeometry geometry(const EngineOptions& o, const CacheLayout& layout) {
  CacheGeometry g;
  g.blocks = o.cache_bytes / layout.bytes_per_block();
  g.tokens_per_block = layout.tokens_per_block;
  if (o.prefix_cache) {
    g.full_snapshot_blocks = CacheMemory::snapshot_blocks(layout, SnapshotKind::kFull);
    g.early_snapshot_blocks = CacheMemory::snapshot_blocks(layout, SnapshotKind::kEarly);
  }
  g.early_interval = o.early_snapshot_interval;
  g.state_slots = o.max_sequences + kSlotsInTransit;
  return g;
}

// From the file of an earlier start, or measured now.
StepCost step_cost(EngineSetup& setup) {
  const EngineOptions& o = setup.options;
  const ModelInfo& info = setup.model->info();
  if (info.draft_tokens == 0 || o.draft_schedule == DraftSchedule::kAll) return StepCost();
  const std::string key = fmt::format("{} {} vocabulary {} block {} cpus {} sequences {} rows {}", setup.ops->name(),
                                      info.type, info.vocabulary, setup.model->cache_layout().bytes_per_block(),
                                      read_topology().usable_threads(), o.max_sequences, o.step_rows);
  if (!o.step_cost_file.empty()) {
    if (auto known = load_step_cost(o.step_cost_file, key)) return *known;
  }
  CostMeasurement what;
  what.most_sequences = o.max_sequences;
  what.most_rows = std::min<int64_t>(o.step_rows, o.max_sequences * int64_t{1 + info.draft_tokens});
  what.budget = std::chrono::seconds(1);
  StepCost cost = measure_step_cost(*setup.model, *setup.memory, what);
  // A folder that cannot be written costs a second at the next start, no more.
  if (!o.step_cost_file.empty()) static_cast<void>(save_step_cost(o.step_cost_file, key, cost));
  return cost;
}

// Empty: the folder has none.
Result<std::string> tokenizer_checksum(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder / "tokenizer.json", error)) return std::string();
  return checksum_of_file(folder / "tokenizer.json");
}

// How much less of a device's memory is free than it was.
uint64_t taken_since(const std::optional<MemoryRoom>& before, const Memory& memory) {
  const std::optional<MemoryRoom> now = memory.room();
  return before && now && before->free > now->free ? before->free - now->free : 0;
}

// A host tier that cannot hold a snapshot and a block would never serve.
Status check_host_tier(int64_t bytes, const CacheLayout& layout) {
  const int64_t least = TieredPrefixes::record_bytes(layout);
  if (bytes == 0 || bytes >= least) return {};
  return invalid_argument(
      fmt::format("kv_host_bytes is {}; allowed: 0, or {} and more (a snapshot and a block)", bytes, least));
}

}  // namespace

bool ModelSnapshotRule::usable(const SnapshotInfo& snapshot, int64_t logits_from) const {
  WrittenRows written{snapshot.position, snapshot.position, snapshot.exact_from};
  // Of an early snapshot the layers that skip rows have none.
  if (snapshot.kind == SnapshotKind::kEarly) written.exact_from = std::numeric_limits<int64_t>::max() / 2;
  return model_.resumable(written, snapshot.position, {RowRule::Kind::kExact, logits_from});
}

Result<EngineSetup> set_up_engine(const EngineOptions& options, std::unique_ptr<Ops> ops) {
  DI_CHECK(ops != nullptr, "an engine needs a backend");
  DI_RETURN_IF_ERROR(check_options(options));
  EngineSetup setup;
  setup.options = options;
  setup.ops = std::move(ops);
  const std::optional<MemoryRoom> before = setup.ops->memory().room();
  DI_ASSIGN_OR_RETURN(setup.model, make_model(options, *setup.ops));

  const CacheLayout& layout = setup.model->cache_layout();
  if (before)
    setup.memory_plan = model_lines(*setup.model, taken_since(before, setup.ops->memory()), options.step_rows);
  if (options.cache_bytes == 0) {
    DI_ASSIGN_OR_RETURN(
        setup.options.cache_bytes,
        remaining_cache_bytes(*setup.model, options.max_sequences + kSlotsInTransit, setup.ops->memory()));
  }
  const int64_t cache_bytes = setup.options.cache_bytes;
  const CacheGeometry cache = geometry(setup.options, layout);
  const int64_t held = cache.blocks * layout.tokens_per_block;
  const int64_t model_context = setup.model->info().max_context;
  if (held < 2 * layout.tokens_per_block)
    return invalid_argument(fmt::format("cache_bytes is {}; allowed: {} or more, two blocks of {} tokens", cache_bytes,
                                        2 * layout.bytes_per_block(), layout.tokens_per_block));
  if (options.max_context > held)
    return invalid_argument(
        fmt::format("max_context is {} tokens, but cache_bytes of {} holds {}; lower the one or raise "
                    "the other to {}",
                    options.max_context, cache_bytes, held,
                    (options.max_context / layout.tokens_per_block + 1) * layout.bytes_per_block()));
  if (options.max_context == 0) setup.options.max_context = std::min(model_context, held);

  DI_RETURN_IF_ERROR(check_host_tier(options.kv_host_bytes, layout));
  DI_RETURN_IF_ERROR(check_cache_room(cache, *setup.model, setup.ops->memory()));
  DI_ASSIGN_OR_RETURN(CacheMemory memory,
                      CacheMemory::create(layout, cache.blocks, cache.state_slots, setup.ops->memory()));
  setup.memory = std::make_unique<CacheMemory>(std::move(memory));
  const std::optional<MemoryRoom> unused = setup.ops->memory().room();
  setup.step_cost = step_cost(setup);
  if (unused) setup.memory_plan.push_back(graphs_line(taken_since(unused, setup.ops->memory())));
  setup.rule = std::make_unique<ModelSnapshotRule>(*setup.model);
  SchedulerConfig config;
  config.cache = cache;
  config.max_context = setup.options.max_context;
  config.step_rows = options.step_rows;
  config.max_sequences = options.max_sequences;
  config.plans_in_flight = kPlansInFlight;
  config.prompt_logit_rows = kPromptLogitRows;
  config.decode_latency = options.decode_latency;
  DI_ASSIGN_OR_RETURN(setup.scheduler, Scheduler::create(config, *setup.rule));
  DI_ASSIGN_OR_RETURN(setup.tokenizer_checksum, tokenizer_checksum(options.model));
  if (wants_tier(options)) {
    DI_ASSIGN_OR_RETURN(setup.cache_identity, cache_identity(setup, options.model));
    DI_ASSIGN_OR_RETURN(setup.tier_store, open_tier_store(options, setup.cache_identity));
  }

  const std::vector<MemoryPlanLine> lines = cache_lines(cache, layout, options.kv_host_bytes);
  setup.memory_plan.insert(setup.memory_plan.end(), lines.begin(), lines.end());
  return setup;
}

bool wants_tier(const EngineOptions& options) {
  return !options.kv_disk_folder.empty() || options.kv_store != nullptr || options.kv_host_bytes > 0;
}

Result<std::string> cache_identity(const EngineSetup& setup, const std::filesystem::path& folder) {
  std::string identity = fmt::format("deepinfer kv cache, format 1\nbackend: {}\n", setup.ops->name());
  DI_ASSIGN_OR_RETURN(const std::string program, program_identity());
  DI_ASSIGN_OR_RETURN(const std::string model, model_identity(folder));
  const CacheLayout& layout = setup.model->cache_layout();
  identity += program + model + fmt::format("block: {} tokens\n", layout.tokens_per_block);
  for (const CacheGroupSpec& group : layout.groups)
    identity += fmt::format("group: {}, {}, {} layers, {} bytes, {} tokens a record, window {}, {}\n", group.name,
                            to_string(group.retention), group.layers.size(), group.record_bytes,
                            group.tokens_per_record, group.window, group.early ? "early" : "not early");
  return identity;
}

Result<std::unique_ptr<KvStore>> open_tier_store(const EngineOptions& o, const std::string& identity) {
  std::unique_ptr<KvStore> host, below;
  if (o.kv_host_bytes > 0) host = std::make_unique<MemoryKvStore>(o.kv_host_bytes);
  if (o.kv_store) {
    DI_ASSIGN_OR_RETURN(below, o.kv_store(identity));
  } else if (!o.kv_disk_folder.empty()) {
    auto disk = DiskKvStore::open({o.kv_disk_folder, o.kv_disk_bytes, identity, o.kv_disk_io});
    if (!disk.ok()) return disk.status().with_context("kv_disk_folder");
    below = std::move(disk).value();
  }
  if (!host) return below;
  if (!below) return host;
  return std::unique_ptr<KvStore>(std::make_unique<LayeredKvStore>(std::move(host), std::move(below)));
}

Status check_same_tokenizer(const EngineSetup& setup, const std::filesystem::path& folder) {
  DI_ASSIGN_OR_RETURN(const std::string checksum, tokenizer_checksum(folder));
  if (checksum.empty() || checksum == setup.tokenizer_checksum) return {};
  return invalid_argument(fmt::format("{}: another tokenizer than that of {}; allowed: the same, or none",
                                      (folder / "tokenizer.json").string(), setup.options.model.string()));
}

}  // namespace deepinfer
