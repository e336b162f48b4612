#include "bench/null_model.h"

#include <algorithm>
#include <ctime>

#include "base/check.h"

namespace deepinfer::bench {
namespace {

// Rows of a step that can give logits: one of each sequence, and those of prompts that report on every token.
int64_t most_logit_rows(const StepLimits& limits) {
  return std::max(limits.logit_rows, limits.sequences) + limits.prompt_logit_rows;
}

}  // namespace

NullModel::NullModel(const NullModelOptions& options, const StepLimits& limits) : busy_(options.busy) {
  info_.type = "null";
  info_.vocabulary = options.vocabulary;
  info_.max_context = options.max_context;
  info_.eos_token = options.vocabulary - 1;
  // Small records: a block is 512 bytes and a snapshot one block.
  layout_.groups.push_back({.name = "history", .layers = {0}, .record_bytes = 4});
  layout_.groups.push_back({.name = "window",
                            .retention = CacheRetention::kSlidingWindow,
                            .layers = {0},
                            .record_bytes = 16,
                            .window = 16,
                            .slots = 16 + 1 + limits.ring_slack,
                            .early = true});
  raised_.assign(static_cast<size_t>(most_logit_rows(limits)), 0);
  logits_.assign(raised_.size() * static_cast<size_t>(options.vocabulary), 0);
}

Result<std::unique_ptr<Model>> NullModel::create(const NullModelOptions& options, const StepLimits& limits, Ops& ops) {
  OpsLimits needed;
  needed.rows = std::max(limits.rows, most_logit_rows(limits));
  needed.vocabulary = options.vocabulary;
  DI_RETURN_IF_ERROR(ops.prepare(needed));
  return std::unique_ptr<Model>(new NullModel(options, limits));
}

void NullModel::spend_time() const {
  const auto spent = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto end = spent() + busy_;
  while (spent() < end) {
  }
}

MatrixView<float> NullModel::forward(std::span<const StepSequence> step) {
  if (busy_.count() > 0) spend_time();
  const auto vocabulary = static_cast<size_t>(info_.vocabulary);
  size_t row = 0;
  for (const StepSequence& sequence : step) {
    const int64_t end = sequence.position + sequence.rows;
    for (int64_t at = std::max(sequence.position, sequence.logits_from); at < end; ++at, ++row) {
      DI_CHECK(row < raised_.size(), "no more rows with logits than the limits allow");
      float* logits = logits_.data() + row * vocabulary;
      logits[raised_[row]] = 0;
      const int32_t token = sequence.tokens[sequence.tokens.size() - static_cast<size_t>(end - at)];
      raised_[row] = static_cast<int32_t>((static_cast<size_t>(token) + 1) % vocabulary);
      logits[raised_[row]] = 1;
    }
  }
  return {logits_.data(), static_cast<int64_t>(row), info_.vocabulary};
}

}  // namespace deepinfer::bench
