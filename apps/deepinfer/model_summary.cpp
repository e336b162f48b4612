#include "model_summary.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "machine_memory.h"
#include "models/deepseek_v41/cache_groups.h"
#include "models/deepseek_v41/tensors.h"

namespace deepinfer::cli {
namespace {

constexpr std::string_view kEmbedding = "embedding and head";
constexpr std::string_view kAttention = "attention";
constexpr std::string_view kCompressor = "compressor and indexer";
constexpr std::string_view kRouted = "routed experts";
constexpr std::string_view kShared = "shared experts";
constexpr std::string_view kRouter = "router";
constexpr std::string_view kHyper = "hyper-connections";
constexpr std::string_view kNorms = "norms";
constexpr std::string_view kEngramTables = "Engram tables";
constexpr std::string_view kEngram = "Engram projections";
constexpr std::string_view kDraft = "DSpark draft";
constexpr std::string_view kVision = "picture encoder";
constexpr std::string_view kOther = "other";
constexpr std::array kOrder = {kEmbedding, kAttention, kCompressor,   kRouted, kShared, kRouter, kHyper,
                               kNorms,     kEngram,    kEngramTables, kDraft,  kVision, kOther};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

uint64_t parameters(const TensorEntry& tensor) {
  if (tensor.name.ends_with(".scale")) return 0;
  const auto elements = static_cast<uint64_t>(tensor.shape.elements());
  return tensor.dtype == DType::kI8 ? 2 * elements : elements;
}

}  // namespace

std::string_view part_of(std::string_view name) {
  if (name.starts_with("model.")) name.remove_prefix(6);
  if (name.starts_with("mtp.")) return kDraft;
  if (name.starts_with("vision.") || name.starts_with("aligner.") || name.starts_with("image_")) return kVision;
  if (name.starts_with("embed.") || name.starts_with("head.")) return kEmbedding;
  if (contains(name, ".engram.embed.")) return kEngramTables;
  if (contains(name, ".engram.")) return kEngram;
  if (contains(name, ".hc_")) return kHyper;
  if (contains(name, "norm.weight") && !contains(name, ".compressor.") && !contains(name, ".indexer.")) return kNorms;
  if (contains(name, ".attn.compressor.") || contains(name, ".attn.indexer.")) return kCompressor;
  if (contains(name, ".attn.")) return kAttention;
  if (contains(name, ".ffn.experts.")) return kRouted;
  if (contains(name, ".ffn.shared_experts.")) return kShared;
  if (contains(name, ".ffn.gate.")) return kRouter;
  return kOther;
}

std::vector<TensorEntry> tensors_of(const Checkpoint& checkpoint) {
  std::vector<TensorEntry> entries;
  entries.reserve(static_cast<size_t>(checkpoint.size()));
  for (int64_t i = 0; i < checkpoint.size(); ++i) {
    const TensorInfo& info = checkpoint.info(i);
    entries.push_back({std::string(info.name), info.dtype, info.shape, info.end - info.begin,
                       std::filesystem::path(checkpoint.shard_of(i).file().path()).filename().string()});
  }
  return entries;
}

std::vector<TensorEntry> tensors_of(const deepseek_v41::Config& config, const deepseek_v41::LayerTable& table) {
  std::vector<TensorEntry> entries;
  for (deepseek_v41::ExpectedTensor& tensor : deepseek_v41::expected_tensors(config, table)) {
    const uint64_t bytes = tensor.bytes();
    entries.push_back({std::move(tensor.name), tensor.dtype, tensor.shape, bytes, {}});
  }
  return entries;
}

ModelSummary summarize(const deepseek_v41::Config& config, const deepseek_v41::LayerTable& table,
                       const std::vector<TensorEntry>& tensors) {
  ModelSummary summary;
  std::array<ModelPart, kOrder.size()> parts;
  for (size_t i = 0; i < parts.size(); ++i) parts[i].name = kOrder[i];
  summary.total.name = "total";
  for (const TensorEntry& tensor : tensors) {
    const auto at = std::find(kOrder.begin(), kOrder.end(), part_of(tensor.name)) - kOrder.begin();
    for (ModelPart* part : {&parts[static_cast<size_t>(at)], &summary.total}) {
      ++part->tensors;
      part->parameters += parameters(tensor);
      part->bytes += tensor.bytes;
    }
  }
  uint64_t vision_bytes = 0;
  for (const ModelPart& part : parts) {
    if (part.tensors > 0) summary.parts.push_back(part);
    if (part.name == kEngramTables) summary.engram_table_bytes = part.bytes;
    if (part.name == kVision) vision_bytes = part.bytes;
  }
  summary.resident_bytes = summary.total.bytes - summary.engram_table_bytes - vision_bytes;
  const CacheLayout layout = deepseek_v41::make_cache_groups(config, table).layout;
  summary.kv_bytes_per_token = layout.bytes_per_block() / layout.tokens_per_block;
  summary.bytes_per_sequence = layout.bytes_per_sequence();

  summary.machine_memory_bytes = machine_memory_bytes();
  constexpr uint64_t kGb = 1'000'000'000;
  for (const auto& [name, memory] :
       {std::pair<std::string_view, uint64_t>{"this machine's memory", summary.machine_memory_bytes},
        {"H100, 80 GB", 80 * kGb},
        {"H200, 141 GB", 141 * kGb},
        {"B200, 180 GB", 180 * kGb}}) {
    const uint64_t usable = memory / 10 * 9;
    summary.hardware.push_back({name, memory, static_cast<int64_t>((summary.resident_bytes + usable - 1) / usable)});
  }
  return summary;
}

}  // namespace deepinfer::cli
