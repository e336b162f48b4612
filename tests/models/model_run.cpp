#include "models/model_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace deepinfer {

LoadedModel::LoadedModel(const OpsBackend& backend, const StepLimits& limits, const std::filesystem::path& folder)
    : ops_(backend.make()) {
  ModelOptions options;
  options.folder = folder;
  options.limits = limits;
  if (options.limits.max_context == 0) options.limits.max_context = 8192;
  model_ = deepseek_v41::DeepseekV41::open(options, *ops_).value();
}

SequenceRun::SequenceRun(LoadedModel& loaded, RowRule rule)
    : loaded_(loaded),
      cache_(SequenceCache::create(loaded.model().cache_layout(), loaded.memory()).value()),
      rule_(rule) {
  for (const Ring& ring : cache_.view().rings) poison(ring.data, ring.slots * ring.record_bytes);
}

void SequenceRun::poison(std::byte* data, int64_t bytes) {
  const std::vector<uint8_t> ones(static_cast<size_t>(bytes), 0xFF);
  loaded_.memory().write(data, ones.data(), ones.size());
}

StepSequence SequenceRun::part(std::span<const int32_t> tokens, int64_t logits_from) {
  StepSequence s;
  s.position = processed();
  s.rows = static_cast<int64_t>(tokens.size());
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  const auto old_blocks = cache_.capacity() / 128;
  DI_CHECK(cache_.reserve(processed()).ok(), "the test machine has memory for a few blocks");
  for (const BlockList& list : cache_.view().histories) {
    for (int64_t b = old_blocks; b < cache_.capacity() / 128; ++b)
      poison(list.blocks[b], list.rows_per_block * list.record_bytes);
  }
  s.cache = cache_.view();
  s.tokens = tokens_;
  s.rule = rule_;
  s.logits_from = logits_from;
  s.draft_context = true;
  return s;
}

Logits SequenceRun::run(std::span<const int32_t> tokens, int64_t chunk, int64_t logits_from) {
  Logits out;
  for (size_t at = 0; at < tokens.size();) {
    const size_t rows = std::min<size_t>(static_cast<size_t>(chunk), tokens.size() - at);
    const StepSequence step = part(tokens.subspan(at, rows), logits_from);
    const auto logits = loaded_.model().forward({&step, 1});
    for (std::vector<float>& row : read_rows(loaded_.memory(), logits)) out.push_back(std::move(row));
    at += rows;
  }
  return out;
}

DraftSequence SequenceRun::draft_part(int32_t token, int drafts) {
  DraftSequence s;
  s.cache = cache_.view();
  s.token = token;
  s.position = processed();
  s.drafts = drafts;
  s.sampling.temperature = 0;
  return s;
}

std::vector<std::vector<uint8_t>> SequenceRun::live_records() const {
  const auto& model = loaded_.model();
  const int64_t n = processed();
  std::vector<std::vector<uint8_t>> out;
  const auto append = [&](const std::byte* record, int64_t bytes) {
    const size_t before = out.back().size();
    out.back().resize(before + static_cast<size_t>(bytes));
    loaded_.memory().read(out.back().data() + before, record, static_cast<size_t>(bytes));
  };
  size_t history = 0;
  size_t ring = 0;
  for (const CacheGroupSpec& group : model.cache_layout().groups) {
    for (const int layer : group.layers) {
      out.emplace_back();
      switch (group.retention) {
        case CacheRetention::kFullHistory: {
          const BlockList& list = cache_.view().histories[history++];
          for (int64_t j = 0; j < n / group.tokens_per_record; ++j) append(list.record(j), list.record_bytes);
          break;
        }
        case CacheRetention::kSlidingWindow: {
          const Ring& records = cache_.view().rings[ring++];
          const bool draft = layer >= model.layer_table().layer_count;
          int64_t first = std::max<int64_t>(0, n - (group.window - 1));
          if (!draft) first = std::max(first, layer_cut(model.config(), model.layer_table(), rule_, layer).window);
          for (int64_t p = first; p < n; ++p) append(records.record(p), records.record_bytes);
          break;
        }
        case CacheRetention::kRunningState: {
          const Ring& records = cache_.view().rings[ring++];
          if (n % 2 != 0) append(records.record(n - 1), records.record_bytes);
          break;
        }
      }
    }
  }
  return out;
}

}  // namespace deepinfer
