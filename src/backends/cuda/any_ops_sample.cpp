// The sampler's lists go to the device and its choices come back; a few rows at a time.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

#include "backends/cuda/any_ops.h"
#include "backends/cuda/any_ops_scratch.h"
#include "backends/cuda/kernels/sampling/sampling.h"
#include "backends/cuda/launch/cuda_status.h"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

int64_t mask_words(int64_t vocabulary) {
  return (vocabulary + 31) / 32;
}

int64_t list_bytes(const SamplingRow& row, int64_t vocabulary) {
  return UploadRing::room<DeviceSamplingRow>(1) +
         UploadRing::room<LogitBias>(static_cast<int64_t>(row.logit_bias.size())) +
         UploadRing::room<TokenCount>(static_cast<int64_t>(row.counts.size())) +
         (row.allowed == nullptr ? 0 : UploadRing::room<uint32_t>(mask_words(vocabulary))) +
         (row.draft < 0 ? 0 : UploadRing::room<float>(vocabulary));
}

}  // namespace

Status AnyOps::sample_rows(const Sample& op, int64_t first, int64_t count, int64_t bytes) {
  const int64_t vocabulary = op.logits.columns, top_columns = op.top_logprobs.columns;
  DI_RETURN_IF_ERROR(ring_.begin(bytes));
  DeviceSamplingRow* rows = nullptr;
  SampleStep step;
  step.rows = ring_.place(count, &rows);
  for (int64_t m = first; m < first + count; ++m) {
    const SamplingRow& row = op.rows[static_cast<size_t>(m)];
    DI_CHECK(row.logprobs <= top_columns, "top_logprobs has a place for every log-probability");
    DI_CHECK(row.forced < vocabulary && row.draft < vocabulary && (row.draft < 0 || row.draft_logits != nullptr),
             "forced tokens and drafts are of the vocabulary, and a draft has its logits");
    const auto of_vocabulary = [&](int32_t token) { return token >= 0 && token < vocabulary; };
    DI_CHECK(std::all_of(row.logit_bias.begin(), row.logit_bias.end(),
                         [&](const LogitBias& entry) { return of_vocabulary(entry.token); }),
             "logit bias is for tokens of the vocabulary");
    DI_CHECK(std::all_of(row.counts.begin(), row.counts.end(),
                         [&](const TokenCount& entry) { return of_vocabulary(entry.token); }),
             "penalties are for tokens of the vocabulary");
    const auto biases = static_cast<int64_t>(row.logit_bias.size()), counts = static_cast<int64_t>(row.counts.size());
    DeviceSamplingRow& to = rows[m - first];
    to = {};
    to.temperature = row.temperature;
    to.top_p = row.top_p;
    to.min_p = row.min_p;
    to.repetition_penalty = row.repetition_penalty;
    to.presence_penalty = row.presence_penalty;
    to.frequency_penalty = row.frequency_penalty;
    to.top_k = row.top_k;
    to.draft = row.draft;
    to.forced = row.forced;
    to.logprobs = row.logprobs;
    to.stream = row.stream;
    to.raw_logprobs = row.raw_logprobs;
    to.seed = row.seed;
    to.position = row.position;
    to.logit_bias = ring_.put(row.logit_bias.data(), biases);
    to.logit_bias_count = biases;
    to.counts = ring_.put(row.counts.data(), counts);
    to.count_count = counts;
    if (row.allowed != nullptr) to.allowed = ring_.put(row.allowed, mask_words(vocabulary));
    if (row.draft >= 0) to.draft_logits = ring_.put(row.draft_logits, vocabulary);
  }
  DI_RETURN_IF_ERROR(ring_.send());

  step.logits = op.logits.rows_from(first, count);
  step.raw = raw_logits_.as<float>();
  step.result = sampled_.as<SampledRow>();
  step.top = reinterpret_cast<TokenLogprob*>(step.result + count);
  step.top_columns = top_columns;
  DI_RETURN_IF_ERROR(any_sample(step, stream_));
  DI_RETURN_IF_ERROR(
      cuda_status(cudaMemcpyAsync(op.result.data() + first, step.result,
                                  static_cast<size_t>(count) * sizeof(SampledRow), cudaMemcpyDeviceToHost, stream_),
                  "choices"));
  if (top_columns > 0)
    DI_RETURN_IF_ERROR(cuda_status(
        cudaMemcpyAsync(top_.data(), step.top, static_cast<size_t>(count * top_columns) * sizeof(TokenLogprob),
                        cudaMemcpyDeviceToHost, stream_),
        "log-probabilities"));
  DI_RETURN_IF_ERROR(cuda_status(cudaStreamSynchronize(stream_), "any_sample"));
  for (int64_t m = 0; top_columns > 0 && m < count; ++m)
    std::copy_n(top_.data() + m * top_columns, top_columns, op.top_logprobs.row(first + m));
  return {};
}

void AnyOps::sample(const Sample& op) {
  DI_CHECK(static_cast<int64_t>(op.rows.size()) == op.logits.rows && op.result.size() == op.rows.size(),
           "one request and one result a row");
  const int64_t vocabulary = op.logits.columns, top_bytes = op.top_logprobs.columns * sizeof(TokenLogprob);
  const int64_t room =
      std::min<int64_t>(sampled_.bytes() / static_cast<int64_t>(sizeof(SampledRow) + static_cast<size_t>(top_bytes)),
                        raw_logits_.bytes() / (4 * vocabulary));
  DI_CHECK(room > 0, "vocabulary of limits");
  for (int64_t first = 0; first < op.logits.rows && well();) {
    int64_t count = 0, bytes = 16;
    for (; first + count < op.logits.rows && count < room; ++count) {
      const int64_t more = list_bytes(op.rows[static_cast<size_t>(first + count)], vocabulary);
      if (count > 0 && bytes + more > ring_.parcel_bytes()) break;
      bytes += more;
    }
    note(sample_rows(op, first, count, bytes));
    first += count;
  }
  if (!well()) std::fill(op.result.begin(), op.result.end(), SampledRow{});
}

}  // namespace deepinfer::cuda
