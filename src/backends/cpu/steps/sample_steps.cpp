// The sampler: what one row asks for, in the order of specs/dspark.md 5.2b.  The vocabulary is never sorted: filters
// become a cut in the order of logits (logit_order.h), and the draw is one pass over the tokens inside it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/steps/logit_order.h"
#include "backends/cpu/steps/row_tasks.h"
#include "backends/cpu/steps/steps.h"
#include "base/check.h"
#include "base/philox.h"

namespace deepinfer::cpu {
namespace {

constexpr int64_t kDrawTokens = 8192;  // of a task when threads share a row; a multiple of kDrawBlock

int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

void add_bias_and_penalties(const SamplingRow& row, float* z, int64_t vocabulary) {
  for (const LogitBias& entry : row.logit_bias) {
    DI_CHECK(entry.token >= 0 && entry.token < vocabulary, "logit bias is for tokens of the vocabulary");
    z[entry.token] += entry.bias;
  }
  for (const TokenCount& count : row.counts) {
    DI_CHECK(count.token >= 0 && count.token < vocabulary, "penalties are for tokens of the vocabulary");
    float& value = z[count.token];
    if (row.repetition_penalty != 1 && (count.in_prompt > 0 || count.in_output > 0)) {
      value = value > 0 ? value / row.repetition_penalty : value * row.repetition_penalty;
    }
    if (row.presence_penalty != 0 && count.in_output > 0) value -= row.presence_penalty;
    if (row.frequency_penalty != 0)
      value = std::fma(-row.frequency_penalty, static_cast<float>(count.in_output), value);
  }
}

uint64_t mass_of(float weight) {
  return static_cast<uint64_t>(static_cast<double>(weight) * 0x1p40);
}

// (total * part) / 2^32 without overflow; total < 2^61, part <= 2^32.
uint64_t scale_mass(uint64_t total, uint64_t part) {
  return (total >> 32) * part + (((total & 0xFFFFFFFFu) * part) >> 32);
}

void merge(const DrawResult& part, DrawResult& whole) {
  whole.kept += part.kept;
  if (part.token < 0) return;
  if (whole.token < 0 || part.key > whole.key || (part.key == whole.key && part.token < whole.token)) {
    whole.key = part.key;
    whole.token = part.token;
  }
}

}  // namespace

// Of one thread.
struct Steps::SampleScratch {
  uint64_t* mass;  // [vocabulary]
  float* weights;  // [vocabulary]
  float* raw;      // [vocabulary]
  float* draft;    // [vocabulary], weights
  LogitOrderScratch order;
};

Status Steps::prepare_sample(const OpsLimits& limits) {
  DI_CHECK(limits.vocabulary <= int64_t{1} << 20, "the sampler takes at most 2^20 tokens");
  const int64_t bytes = round_up(limits.vocabulary, 16) * 24 + LogitOrderScratch::kBuckets * 8;
  DI_ASSIGN_OR_RETURN(sample_, Buffer::allocate(static_cast<uint64_t>(bytes * pool_.threads())));
  draws_.resize(static_cast<size_t>(pool_.threads() * (limits.vocabulary / kDrawTokens + 1)));
  requests_.resize(static_cast<size_t>(pool_.threads()));
  return {};
}

Steps::SampleScratch Steps::sample_scratch(int thread) {
  const int64_t n = round_up(limits_.vocabulary, 16);
  std::byte* base = sample_.data() + thread * (n * 24 + LogitOrderScratch::kBuckets * 8);
  auto* mass = reinterpret_cast<uint64_t*>(base);
  auto* weights = reinterpret_cast<float*>(base + n * 8);
  auto* raw = weights + n;
  auto* draft = raw + n;
  auto* ids = reinterpret_cast<int32_t*>(draft + n);
  return {mass, weights, raw, draft, {reinterpret_cast<uint64_t*>(base + n * 24), ids}};
}

bool Steps::filter_row(const SamplingRow& row, float* z, int64_t vocabulary, SampleScratch scratch,
                       DrawRequest& request) {
  request.cut = everything();
  request.logits = z;
  request.inverse_temperature = 1.0f / row.temperature;
  request.seed = row.seed;
  request.position = static_cast<uint32_t>(row.position);
  request.stream = row.stream;
  request.use_min_p = row.min_p > 0;
  request.min_p = row.min_p;
  add_bias_and_penalties(row, z, vocabulary);
  LogitStats stats = kernels_.logit_stats(z, vocabulary);
  if (stats.bad) return false;
  if (row.allowed != nullptr) {
    kernels_.mask_logits(row.allowed, z, vocabulary);
    stats = kernels_.logit_stats(z, vocabulary);
  }
  request.top = stats.top;
  if (stats.top == -std::numeric_limits<float>::infinity()) return false;
  if (row.temperature < kGreedyBelow) return true;
  if (row.top_k > 0) {
    const int64_t count = list_tokens(z, vocabulary, request.cut, scratch.order);
    request.cut = cut_at(z, count, request.cut, nullptr, static_cast<uint64_t>(row.top_k) - 1, scratch.order);
  }
  if (row.top_p < 1) {
    kernels_.exp_weights(z, vocabulary, stats.top, request.inverse_temperature, scratch.weights);
    uint64_t total = 0;
    int64_t count = 0;
    for (int64_t v = 0; v < vocabulary; ++v) {
      const uint64_t mass = inside(request.cut, z[v], v) ? mass_of(scratch.weights[v]) : 0;
      scratch.mass[v] = mass;
      scratch.order.ids[count] = static_cast<int32_t>(v);
      count += mass > 0 ? 1 : 0;
      total += mass;
    }
    // limit < total, since the largest mass is 2^40 and top_p at most 1 - 2^-24.
    const double part = std::floor(static_cast<double>(std::max(row.top_p, 0.0f)) * 0x1p32);
    const uint64_t limit = scale_mass(total, static_cast<uint64_t>(part));
    request.cut = cut_at(z, count, request.cut, scratch.mass, limit, scratch.order);
  }
  return true;
}

bool Steps::test_draft(const SamplingRow& row, const float* z, int64_t vocabulary, const DrawRequest& request,
                       SampleScratch scratch, SampledRow& result) {
  DI_CHECK(row.draft < vocabulary && row.draft_logits != nullptr, "a draft is of the vocabulary and has its logits");
  const float r = request.inverse_temperature;
  kernels_.exp_weights(z, vocabulary, request.top, r, scratch.weights);
  kernels_.exp_weights(row.draft_logits, vocabulary, kernels_.logit_stats(row.draft_logits, vocabulary).top, r,
                       scratch.draft);
  uint64_t p_sum = 0, q_sum = 0;
  int32_t kept = 0;
  for (int64_t v = 0; v < vocabulary; ++v) {
    const bool left = inside(request.cut, z[v], v) && (!request.use_min_p || scratch.weights[v] >= request.min_p);
    if (!left) scratch.weights[v] = 0;
    kept += left ? 1 : 0;
    p_sum += mass_of(scratch.weights[v]);
    q_sum += mass_of(scratch.draft[v]);
  }
  const auto p = [&](int64_t v) {
    return static_cast<double>(mass_of(scratch.weights[v])) / static_cast<double>(p_sum);
  };
  const auto q = [&](int64_t v) { return static_cast<double>(mass_of(scratch.draft[v])) / static_cast<double>(q_sum); };
  const auto noise = [&](uint32_t stream) {
    return philox4x32({0, static_cast<uint32_t>(row.position), row.stream + stream, 0},
                      {static_cast<uint32_t>(row.seed), static_cast<uint32_t>(row.seed >> 32)});
  };
  result = {.token = row.draft, .kept = kept, .key = 0, .logprob = 0};
  if ((noise(kAcceptStream)[0] + 0.5) * 0x1p-32 * q(row.draft) < p(row.draft)) return true;
  uint64_t excess = 0;
  for (int64_t v = 0; v < vocabulary; ++v) {
    scratch.mass[v] = static_cast<uint64_t>(std::max(p(v) - q(v), 0.0) * 0x1p52);
    excess += scratch.mass[v];
  }
  if (excess == 0) return false;
  const auto words = noise(kExcessStream);
  __extension__ typedef unsigned __int128 Wide;
  const auto at = static_cast<uint64_t>(static_cast<Wide>(excess) * (uint64_t{words[1]} << 32 | words[0]) >> 64);
  uint64_t before = 0;
  for (int64_t v = 0; before <= at; ++v) {
    before += scratch.mass[v];
    result.token = static_cast<int32_t>(v);
  }
  return true;
}

// Over the tokens that may be drawn, or over all finite ones for raw and greedy rows.
void Steps::write_logprobs(const SamplingRow& row, const float* z, int64_t vocabulary, const DrawRequest& request,
                           bool everywhere, SampleScratch scratch, SampledRow& result, TokenLogprob* top) {
  const LogitCut cut = everywhere ? everything() : request.cut;
  const float most = everywhere ? kernels_.logit_stats(z, vocabulary).top : request.top;
  const float r = everywhere ? 1.0f : request.inverse_temperature;
  kernels_.exp_weights(z, vocabulary, most, r, scratch.weights);
  uint64_t sum = 0;
  for (int64_t v = 0; v < vocabulary; ++v) {
    const bool listed =
        inside(cut, z[v], v) && (everywhere || !request.use_min_p || scratch.weights[v] >= request.min_p);
    // From here on raw logits of other tokens are -infinity.
    scratch.raw[v] = listed ? z[v] : -std::numeric_limits<float>::infinity();
    sum += listed ? mass_of(scratch.weights[v]) : 0;
  }
  const float log_sum = kernels_.natural_log(static_cast<float>(sum) * 0x1p-40f);
  const bool listed = scratch.raw[result.token] > -std::numeric_limits<float>::infinity();
  result.logprob = listed ? (z[result.token] - most) * r - log_sum : -std::numeric_limits<float>::infinity();
  if (row.logprobs == 0) return;
  const int64_t all = list_tokens(scratch.raw, vocabulary, everything(), scratch.order);
  const LogitCut best =
      cut_at(scratch.raw, all, everything(), nullptr, static_cast<uint64_t>(row.logprobs) - 1, scratch.order);
  const int64_t count = list_tokens(scratch.raw, vocabulary, best, scratch.order);
  int32_t* const ids = scratch.order.ids;
  std::sort(ids, ids + count, [&](int32_t a, int32_t b) { return z[a] != z[b] ? z[a] > z[b] : a < b; });
  for (int64_t i = 0; i < count; ++i) top[i] = {ids[i], (z[ids[i]] - most) * r - log_sum};
}

void Steps::sample(const Sample& op) {
  const auto rows = static_cast<int64_t>(op.rows.size());
  const int64_t vocabulary = op.logits.columns;
  DI_CHECK(op.logits.rows == rows && op.result.size() == op.rows.size(), "one request and one result a row");
  DI_CHECK(vocabulary <= limits_.vocabulary, "prepare() was told a smaller vocabulary");
  const auto top_of = [&](int64_t m) { return op.top_logprobs.columns > 0 ? op.top_logprobs.row(m) : nullptr; };
  // Everything but a draw that is left to all threads.  True if the draw is left.
  const auto choose = [&](int64_t m, int thread, bool share_draw, DrawRequest& request) {
    const SamplingRow& row = op.rows[m];
    SampledRow& result = op.result[m];
    TokenLogprob* const top = top_of(m);
    DI_CHECK(row.logprobs <= op.top_logprobs.columns, "top_logprobs has a place for every log-probability");
    std::fill_n(top, top == nullptr ? 0 : op.top_logprobs.columns, TokenLogprob{});
    result = {};
    float* const z = op.logits.row(m);
    const SampleScratch scratch = sample_scratch(thread);
    const bool raw = row.logprobs >= 0 && row.raw_logprobs;
    if (raw) std::copy_n(z, vocabulary, scratch.raw);
    if (!filter_row(row, z, vocabulary, scratch, request)) return false;
    const bool greedy = row.temperature < kGreedyBelow;
    if (row.forced >= 0) {
      DI_CHECK(row.forced < vocabulary, "a forced token is of the vocabulary");
      const int32_t kept = greedy ? 1 : static_cast<int32_t>(kernels_.draw(request, 0, vocabulary).kept);
      result = {.token = row.forced, .kept = kept, .key = 0, .logprob = 0};
    } else if (greedy) {
      const int64_t best = kernels_.find_first(z, vocabulary, request.top);
      result = {.token = static_cast<int32_t>(best), .kept = 1, .key = z[best], .logprob = 0};
    } else if (row.draft >= 0 && test_draft(row, z, vocabulary, request, scratch, result)) {
      // The draft or what replaces it.
    } else if (share_draw && !raw) {
      return true;
    } else {
      const DrawResult drawn = kernels_.draw(request, 0, vocabulary);
      result = {.token = drawn.token, .kept = static_cast<int32_t>(drawn.kept), .key = drawn.key, .logprob = 0};
    }
    if (row.logprobs >= 0) {
      write_logprobs(row, raw ? scratch.raw : z, vocabulary, request, raw || greedy, scratch, result, top);
    }
    return false;
  };
  const int64_t parts = (vocabulary + kDrawTokens - 1) / kDrawTokens;
  if (rows >= pool_.threads() || parts < 2) {
    for_each_row(pool_, rows, 4 * vocabulary, [&](int64_t m, int thread) {
      DrawRequest request{};
      choose(m, thread, false, request);
    });
    return;
  }
  // Few rows of a large vocabulary: threads share the draws.
  for_each_task(pool_, rows, [&](int64_t m, int thread) {
    if (!choose(m, thread, true, requests_[m])) requests_[m].logits = nullptr;
  });
  for_each_task(pool_, rows * parts, [&](int64_t task, int) {
    const DrawRequest& request = requests_[task / parts];
    if (request.logits == nullptr) return;
    const int64_t first = task % parts * kDrawTokens;
    draws_[task] = kernels_.draw(request, first, std::min(vocabulary, first + kDrawTokens));
  });
  for_each_task(pool_, rows, [&](int64_t m, int thread) {
    const DrawRequest& request = requests_[m];
    if (request.logits == nullptr) return;
    DrawResult drawn{0, -1, 0};
    for (int64_t part = 0; part < parts; ++part) merge(draws_[m * parts + part], drawn);
    op.result[m] = {.token = drawn.token, .kept = static_cast<int32_t>(drawn.kept), .key = drawn.key, .logprob = 0};
    if (op.rows[m].logprobs >= 0) {
      write_logprobs(op.rows[m], request.logits, vocabulary, request, false, sample_scratch(thread), op.result[m],
                     top_of(m));
    }
  });
}

}  // namespace deepinfer::cpu
