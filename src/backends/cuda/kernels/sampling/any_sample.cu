// One block a row, step by step as specs/dspark.md 5.2b has it.  All sums are of integers.
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/kernels/sampling/row_tokens.cuh"
#include "backends/cuda/kernels/sampling/sampling.h"
#include "backends/cuda/launch/launch.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kThreads = kSampleThreads;
constexpr float kInfinity = __builtin_huge_valf();

__device__ void add_bias_and_penalties(const DeviceSamplingRow& row, float* z) {
  for (int64_t i = threadIdx.x; i < row.logit_bias_count; i += kThreads) {
    const LogitBias entry = row.logit_bias[i];
    z[entry.token] = __fadd_rn(z[entry.token], entry.bias);
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < row.count_count; i += kThreads) {
    const TokenCount count = row.counts[i];
    float value = z[count.token];
    if (row.repetition_penalty != 1 && (count.in_prompt > 0 || count.in_output > 0))
      value = value > 0 ? __fdiv_rn(value, row.repetition_penalty) : __fmul_rn(value, row.repetition_penalty);
    if (row.presence_penalty != 0 && count.in_output > 0) value = __fadd_rn(value, -row.presence_penalty);
    if (row.frequency_penalty != 0)
      value = __fmaf_rn(-row.frequency_penalty, static_cast<float>(count.in_output), value);
    z[count.token] = value;
  }
  __syncthreads();
}

// Whether all logits are less than +infinity and numbers.
__device__ bool drawable(const float* z, int64_t vocabulary) {
  Mass wrong = 0;
  for (int64_t v = threadIdx.x; v < vocabulary; v += kThreads) wrong += z[v] < kInfinity ? 0 : 1;
  return block_total(wrong) == 0;
}

__device__ void apply_mask(const uint32_t* allowed, float* z, int64_t vocabulary) {
  if (allowed == nullptr) return;
  for (int64_t v = threadIdx.x; v < vocabulary; v += kThreads)
    if ((allowed[v / 32] >> (v % 32) & 1u) == 0) z[v] = kForbidden;
  __syncthreads();
}

// All finite tokens; no token where none is.
__device__ TokenSet finite_tokens(const float* z, int64_t vocabulary, float r) {
  TokenSet set{z, vocabulary, kForbidden, r};
  const Key best = most_likely(set, ~static_cast<Key>(0));
  if (best != 0) set.top = z[token_of_key(best)];
  return set;
}

// (total * part) / 2^32 without overflow.
__device__ Mass scale_mass(Mass total, Mass part) {
  return (total >> 32) * part + (((total & 0xffffffffu) * part) >> 32);
}

__device__ void filter(const DeviceSamplingRow& row, TokenSet& set) {
  if (row.top_k > 0 && static_cast<Mass>(row.top_k) < count_of(set))
    set.cut = find_cut<Until::kCount>(set, static_cast<Mass>(row.top_k));
  if (row.top_p < 1) {
    const double part = floor(static_cast<double>(row.top_p > 0 ? row.top_p : 0.0f) * 0x1p32);
    set.cut = find_cut<Until::kMass>(set, scale_mass(total_mass(set), static_cast<Mass>(part)));
  }
  if (row.min_p > 0) set.least = row.min_p;
}

// The largest key of the draw, the lowest token among equals, in shared memory.
struct Draw {
  float key;
  int32_t token;  // -1: none
};
__device__ __forceinline__ bool better(const Draw& a, const Draw& b) {
  if (a.token < 0 || b.token < 0) return b.token < 0 && a.token >= 0;
  return a.key > b.key || (a.key == b.key && a.token < b.token);
}
__device__ Draw draw(const DeviceSamplingRow& row, const TokenSet& set) {
  Draw best{0, -1};
  for (int64_t block = threadIdx.x; block * 4 < set.vocabulary; block += kThreads) {
    const NoiseWords words = noise_words(row.seed, row.position, row.stream, static_cast<uint32_t>(block));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t v = block * 4 + i;
      if (v >= set.vocabulary || !set.has(v)) continue;
      const Draw mine{__fmaf_rn(set.z[v], set.r, gumbel(words.word[i])), static_cast<int32_t>(v)};
      if (better(mine, best)) best = mine;
    }
  }
  __shared__ Draw draws[kThreads];
  draws[threadIdx.x] = best;
  for (int step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < step && better(draws[threadIdx.x + step], draws[threadIdx.x]))
      draws[threadIdx.x] = draws[threadIdx.x + step];
  }
  __syncthreads();
  return draws[0];
}

__device__ __forceinline__ double share(const TokenSet& set, int64_t token, double sum) {
  return set.has(token) ? __ddiv_rn(static_cast<double>(set.mass(token)), sum) : 0.0;
}

// The choice of a DraftTest; -1 where only a plain draw is left.
__device__ int32_t test_draft(const DeviceSamplingRow& row, const TokenSet& set) {
  const TokenSet drafted = finite_tokens(row.draft_logits, set.vocabulary, set.r);
  const double p_sum = __ull2double_rn(total_mass(set)), q_sum = __ull2double_rn(total_mass(drafted));
  const NoiseWords accept = noise_words(row.seed, row.position, row.stream + kAcceptStream, 0);
  const double u = (accept.word[0] + 0.5) * 0x1p-32;
  if (__dmul_rn(u, share(drafted, row.draft, q_sum)) < share(set, row.draft, p_sum)) return row.draft;

  const auto excess = [&](int64_t v) -> Mass {
    const double more = __dadd_rn(share(set, v, p_sum), -share(drafted, v, q_sum));
    return static_cast<Mass>((more > 0.0 ? more : 0.0) * 0x1p52);
  };
  // A thread takes neighbouring tokens, so that sums run in their order.
  const int64_t length = (set.vocabulary + kThreads - 1) / kThreads, first = threadIdx.x * length;
  const int64_t end = min(first + length, set.vocabulary);
  Mass own = 0;
  for (int64_t v = first; v < end; ++v) own += excess(v);
  __shared__ Mass sums[kThreads];
  __shared__ int32_t choice;
  sums[threadIdx.x] = own;
  if (threadIdx.x == 0) choice = -1;
  __syncthreads();
  Mass before = 0, sum = 0;
  for (int i = 0; i < kThreads; ++i) {
    if (i < static_cast<int>(threadIdx.x)) before += sums[i];
    sum += sums[i];
  }
  if (sum > 0) {
    const NoiseWords words = noise_words(row.seed, row.position, row.stream + kExcessStream, 0);
    const Mass at = __umul64hi(sum, static_cast<Mass>(words.word[1]) << 32 | words.word[0]);
    if (before <= at && at < before + own) {  // one thread
      int64_t v = first;
      for (Mass until = before + excess(v); until <= at; until += excess(v)) ++v;
      choice = static_cast<int32_t>(v);
    }
  }
  __syncthreads();
  const int32_t token = choice;
  __syncthreads();
  return token;
}

__device__ void write_logprobs(const TokenSet& set, int32_t most, SampledRow& result, TokenLogprob* top) {
  const float sum = ln(log_parts(__fmul_rn(__ull2float_rn(total_mass(set)), 0x1p-40f)));
  result.logprob = set.has(result.token) ? __fadd_rn(set.exponent(result.token), -sum) : kForbidden;
  Key last = ~static_cast<Key>(0);
  for (int32_t i = 0; i < most; ++i) {
    last = most_likely(set, last);
    if (last == 0) break;
    const int32_t token = token_of_key(last);
    if (threadIdx.x == 0) top[i] = {token, __fadd_rn(set.exponent(token), -sum)};
  }
}

__device__ SampledRow choose(const DeviceSamplingRow& row, float* z, const float* raw, int64_t vocabulary,
                             TokenLogprob* top) {
  SampledRow result{-1, 0, 0, 0};
  add_bias_and_penalties(row, z);
  if (!drawable(z, vocabulary)) return result;
  apply_mask(row.allowed, z, vocabulary);
  const bool greedy = row.temperature < kGreedyBelow;
  TokenSet set = finite_tokens(z, vocabulary, greedy ? 1.0f : __fdiv_rn(1.0f, row.temperature));
  if (set.top == kForbidden) return result;
  if (greedy) {
    result.token = token_of_key(most_likely(set, ~static_cast<Key>(0)));
    result.kept = 1;
    result.key = z[result.token];
  } else {
    filter(row, set);
    result.kept = static_cast<int32_t>(count_of(set));
    if (row.draft >= 0 && row.forced < 0) result.token = test_draft(row, set);
    if (result.token < 0) {
      const Draw drawn = draw(row, set);
      result.token = drawn.token;
      result.key = drawn.key;
    }
  }
  if (row.forced >= 0) {
    result.token = row.forced;
    result.key = 0;
  }
  if (row.logprobs >= 0)
    write_logprobs(row.raw_logprobs ? finite_tokens(raw, vocabulary, 1.0f) : set, row.logprobs, result, top);
  return result;
}

__global__ void __launch_bounds__(kThreads) sample(const SampleStep step) {
  follow_previous_kernels();
  const int64_t m = blockIdx.x, vocabulary = step.logits.columns;
  const DeviceSamplingRow row = step.rows[m];
  float* z = row_of(step.logits, m);
  float* raw = step.raw + m * vocabulary;
  TokenLogprob* top = step.top + m * step.top_columns;
  for (int64_t i = threadIdx.x; i < step.top_columns; i += kThreads) top[i] = {-1, 0};
  if (row.logprobs >= 0 && row.raw_logprobs)
    for (int64_t v = threadIdx.x; v < vocabulary; v += kThreads) raw[v] = z[v];
  __syncthreads();
  const SampledRow result = choose(row, z, raw, vocabulary, top);
  if (threadIdx.x == 0) step.result[m] = result;
}

}  // namespace

Status any_sample(const SampleStep& step, Stream stream) {
  return launch(sample, "any_sample", dim3(blocks(step.logits.rows)), kThreads, 0, stream, step, kEarly);
}

}  // namespace deepinfer::cuda
