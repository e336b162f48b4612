#include "models/deepseek_v41/tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/deepseek_v41/tensor_names.h"

namespace deepinfer::deepseek_v41 {
namespace {

constexpr size_t kNamesShown = 5;
constexpr std::string_view kOptionalPrefix = "model.";

struct Bound {
  Weights weights;
  TensorAudit audit;
};

// Tied copies that some exports carry in draft stages: mtp.K.embed.weight and mtp.K.head.weight.
bool is_tied_copy(const Config& c, std::string_view name) {
  if (name.starts_with(kOptionalPrefix)) name.remove_prefix(kOptionalPrefix.size());
  for (int k = 0; k < c.num_nextn_predict_layers; ++k) {
    if (name == fmt::format("mtp.{}.embed.weight", k) || name == fmt::format("mtp.{}.head.weight", k)) return true;
  }
  return false;
}

Bound bind(const Config& c, const LayerTable& table, const Checkpoint& checkpoint) {
  Bound out;
  TensorAudit& audit = out.audit;
  std::vector<bool> used(static_cast<size_t>(checkpoint.size()));
  out.weights = visit_tensors(c, table, [&](std::string_view name, DType dtype, const Shape& shape) -> const void* {
    const std::string full = stored_name(checkpoint, name);
    if (full.empty()) {
      audit.missing.emplace_back(name);
      return nullptr;
    }
    used[static_cast<size_t>(*checkpoint.index_of(full))] = true;
    const auto view = checkpoint.require(full, dtype, shape);
    if (!view.ok()) {
      audit.wrong.push_back(view.status().message());
      return nullptr;
    }
    ++audit.tensors;
    audit.bytes += view->bytes();
    return view->data;
  });
  for (int64_t i = 0; i < checkpoint.size(); ++i) {
    if (used[static_cast<size_t>(i)]) continue;
    const std::string_view name = checkpoint.info(i).name;
    (is_tied_copy(c, name) ? audit.ignored : audit.unexpected).emplace_back(name);
  }
  std::sort(audit.unexpected.begin(), audit.unexpected.end());
  return out;
}

void append_list(std::string& text, std::string_view what, const std::vector<std::string>& entries,
                 std::string_view separator) {
  if (entries.empty()) return;
  if (!text.empty()) text += "; ";
  text += fmt::format("{} {} tensor{}: ", entries.size(), what, entries.size() == 1 ? "" : "s");
  const size_t shown = std::min(entries.size(), kNamesShown);
  text +=
      fmt::format("{}", fmt::join(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(shown), separator));
  if (entries.size() > shown) text += fmt::format(" and {} more", entries.size() - shown);
}

}  // namespace

uint64_t ExpectedTensor::bytes() const {
  return static_cast<uint64_t>(shape.elements()) * static_cast<uint64_t>(bits(dtype)) / 8;
}

Status TensorAudit::status(bool allow_extra) const {
  if (ok(allow_extra)) return {};
  std::string text;
  append_list(text, "missing", missing, ", ");
  append_list(text, "wrong", wrong, " | ");
  if (!allow_extra) append_list(text, "unexpected", unexpected, ", ");
  return corrupt_file(text);
}

std::vector<ExpectedTensor> expected_tensors(const Config& c, const LayerTable& table) {
  std::vector<ExpectedTensor> list;
  visit_tensors(c, table, [&](std::string_view name, DType dtype, const Shape& shape) -> const void* {
    list.push_back({std::string(name), dtype, shape});
    return nullptr;
  });
  return list;
}

TensorAudit audit_tensors(const Config& c, const LayerTable& table, const Checkpoint& checkpoint) {
  return bind(c, table, checkpoint).audit;
}

Result<Weights> bind_weights(const Config& c, const LayerTable& table, const Checkpoint& checkpoint, bool allow_extra) {
  Bound bound = bind(c, table, checkpoint);
  if (Status status = bound.audit.status(allow_extra); !status.ok()) return status.with_context(checkpoint.folder());
  return std::move(bound.weights);
}

std::string stored_name(const Checkpoint& checkpoint, std::string_view name) {
  std::string full(name);
  if (checkpoint.index_of(full)) return full;
  full.insert(0, kOptionalPrefix);
  return checkpoint.index_of(full) ? full : std::string();
}

void expect_single_rows(const Config& config, const Checkpoint& checkpoint) {
  constexpr uint64_t kLargeTable = uint64_t{64} << 20;
  for (const int layer : config.engram_layer_ids) {
    for (const char* name : {"weight", "scale"}) {
      const std::string full = stored_name(checkpoint, fmt::format("layers.{}.engram.embed.{}", layer, name));
      const auto index = checkpoint.index_of(full);
      if (!index) continue;
      const Safetensors& shard = checkpoint.shard_of(*index);
      const TensorInfo& info = checkpoint.info(*index);
      if (info.end - info.begin >= kLargeTable)
        shard.file().expect_random(shard.header().data_start + info.begin, info.end - info.begin);
    }
  }
}

}  // namespace deepinfer::deepseek_v41
