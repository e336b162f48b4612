#include "ops/sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "ops/reference/reference.h"
#include "ops/reference/sampling_noise.h"

namespace deepinfer::reference {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

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
    if (row.frequency_penalty != 0) {
      value = std::fma(-row.frequency_penalty, static_cast<float>(count.in_output), value);
    }
  }
}

bool has_nan_or_plus_infinity(const float* z, int64_t vocabulary) {
  return std::any_of(z, z + vocabulary, [](float v) { return !(v < std::numeric_limits<float>::infinity()); });
}

void apply_mask(const uint32_t* allowed, float* z, int64_t vocabulary) {
  if (allowed == nullptr) return;
  for (int64_t v = 0; v < vocabulary; ++v) {
    if ((allowed[v / 32] >> (v % 32) & 1) == 0) z[v] = kForbidden;
  }
}

std::vector<int32_t> finite_tokens(const float* z, int64_t vocabulary) {
  std::vector<int32_t> tokens;
  for (int64_t v = 0; v < vocabulary; ++v) {
    if (z[v] > kForbidden) tokens.push_back(static_cast<int32_t>(v));
  }
  return tokens;
}

// The order of the filters: logit descending, then id ascending.
struct ByLogit {
  const float* z;
  bool operator()(int32_t a, int32_t b) const { return z[a] != z[b] ? z[a] > z[b] : a < b; }
};

// d of 5.2b, "weights", and its integer mass.
struct Weights {
  const float* z;
  float top;  // the largest logit of the set
  float r;    // 1 / temperature

  float exponent(int32_t token) const { return (z[token] - top) * r; }
  float weight(int32_t token) const { return exp_weight(exponent(token)); }
  uint64_t mass(int32_t token) const { return weight_mass(weight(token)); }
};

float largest(const float* z, const std::vector<int32_t>& tokens) {
  float top = kForbidden;
  for (const int32_t v : tokens) top = std::max(top, z[v]);
  return top;
}

// (total * part) / 2^32 without overflow; total < 2^61, part <= 2^32.
uint64_t scale_mass(uint64_t total, uint64_t part) {
  return (total >> 32) * part + (((total & 0xFFFFFFFFu) * part) >> 32);
}

// floor(a * b / 2^64).
uint64_t multiply_high(uint64_t a, uint64_t b) {
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<uint64_t>(static_cast<Wide>(a) * b >> 64);
}

// Steps 3 to 6: keeps the tokens that may be drawn; sorted where a filter needs the order.
void filter(const SamplingRow& row, const float* z, std::vector<int32_t>& tokens) {
  const ByLogit order{z};
  const auto top_k = static_cast<size_t>(std::max(row.top_k, 0));
  if (top_k > 0 && top_k < tokens.size()) {
    std::partial_sort(tokens.begin(), tokens.begin() + row.top_k, tokens.end(), order);
    tokens.resize(top_k);
  }
  const Weights weights{z, largest(z, tokens), 1.0f / row.temperature};
  if (row.top_p < 1) {
    std::sort(tokens.begin(), tokens.end(), order);
    uint64_t total = 0;
    for (const int32_t v : tokens) total += weights.mass(v);
    const double part = std::floor(static_cast<double>(std::max(row.top_p, 0.0f)) * 0x1p32);
    const uint64_t limit = scale_mass(total, static_cast<uint64_t>(part));
    uint64_t before = 0;
    size_t kept = 0;
    while (kept < tokens.size() && before <= limit) before += weights.mass(tokens[kept++]);
    tokens.resize(kept);
  }
  if (row.min_p > 0) {
    std::erase_if(tokens, [&](int32_t v) { return weights.weight(v) < row.min_p; });
  }
}

// Step 7: the largest key, the lowest id among equals.
void draw(const SamplingRow& row, const float* z, const std::vector<int32_t>& tokens, SampledRow& result) {
  const float r = 1.0f / row.temperature;
  for (const int32_t v : tokens) {
    const auto words = noise_words(row.seed, row.position, row.stream, static_cast<uint32_t>(v) / 4);
    const float key = std::fma(z[v], r, gumbel(words[v % 4]));
    if (result.token < 0 || key > result.key || (key == result.key && v < result.token)) {
      result.token = v;
      result.key = key;
    }
  }
}

// P_v or Q_v of DraftTest, 0 outside the set.
std::vector<double> shares(const Weights& weights, const std::vector<int32_t>& tokens, int64_t vocabulary) {
  uint64_t sum = 0;
  for (const int32_t v : tokens) sum += weights.mass(v);
  std::vector<double> share(static_cast<size_t>(vocabulary));
  for (const int32_t v : tokens)
    share[static_cast<size_t>(v)] = static_cast<double>(weights.mass(v)) / static_cast<double>(sum);
  return share;
}

// The choice of a DraftTest; false where only a plain draw is left.
bool test_draft(const SamplingRow& row, const float* z, const std::vector<int32_t>& tokens, int64_t vocabulary,
                SampledRow& result) {
  DI_CHECK(row.draft < vocabulary && row.draft_logits != nullptr, "a draft is of the vocabulary and has its logits");
  const float r = 1.0f / row.temperature;
  const std::vector<int32_t> drafted = finite_tokens(row.draft_logits, vocabulary);
  const std::vector<double> p = shares({z, largest(z, tokens), r}, tokens, vocabulary);
  const std::vector<double> q = shares({row.draft_logits, largest(row.draft_logits, drafted), r}, drafted, vocabulary);
  const auto draft = static_cast<size_t>(row.draft);
  const double u = (noise_words(row.seed, row.position, row.stream + kAcceptStream, 0)[0] + 0.5) * 0x1p-32;
  if (u * q[draft] < p[draft]) {
    result.token = row.draft;
    return true;
  }
  std::vector<uint64_t> excess;
  uint64_t sum = 0;
  for (size_t v = 0; v < p.size(); ++v) {
    excess.push_back(static_cast<uint64_t>(std::max(p[v] - q[v], 0.0) * 0x1p52));
    sum += excess.back();
  }
  if (sum == 0) return false;
  const auto words = noise_words(row.seed, row.position, row.stream + kExcessStream, 0);
  const uint64_t at = multiply_high(sum, uint64_t{words[1]} << 32 | words[0]);
  size_t v = 0;
  for (uint64_t before = excess[0]; before <= at; before += excess[v]) ++v;
  result.token = static_cast<int32_t>(v);
  return true;
}

float log_sum(const Weights& weights, const std::vector<int32_t>& tokens) {
  uint64_t sum = 0;
  for (const int32_t v : tokens) sum += weights.mass(v);
  return ln(log_parts(static_cast<float>(sum) * 0x1p-40f));
}

void write_logprobs(const Weights& weights, std::vector<int32_t> tokens, int32_t most, SampledRow& result,
                    TokenLogprob* top) {
  const float sum = log_sum(weights, tokens);
  const bool listed = std::find(tokens.begin(), tokens.end(), result.token) != tokens.end();
  result.logprob = listed ? weights.exponent(result.token) - sum : kForbidden;
  const auto count = std::min(static_cast<int64_t>(most), static_cast<int64_t>(tokens.size()));
  std::partial_sort(tokens.begin(), tokens.begin() + count, tokens.end(), ByLogit{weights.z});
  for (int64_t i = 0; i < count; ++i) top[i] = {tokens[i], weights.exponent(tokens[i]) - sum};
}

void sample_row(const SamplingRow& row, float* z, int64_t vocabulary, SampledRow& result, TokenLogprob* top) {
  result = {};
  std::vector<float> raw;
  if (row.logprobs >= 0 && row.raw_logprobs) raw.assign(z, z + vocabulary);
  add_bias_and_penalties(row, z, vocabulary);
  if (has_nan_or_plus_infinity(z, vocabulary)) return;
  apply_mask(row.allowed, z, vocabulary);
  std::vector<int32_t> tokens = finite_tokens(z, vocabulary);
  if (tokens.empty()) return;

  const bool greedy = row.temperature < kGreedyBelow;
  if (greedy) {
    const int32_t best = *std::min_element(tokens.begin(), tokens.end(), ByLogit{z});
    result = {.token = best, .kept = 1, .key = z[best], .logprob = 0};
  } else {
    filter(row, z, tokens);
    result.kept = static_cast<int32_t>(tokens.size());
    if (row.draft < 0 || row.forced >= 0 || !test_draft(row, z, tokens, vocabulary, result))
      draw(row, z, tokens, result);
  }
  if (row.forced >= 0) {
    DI_CHECK(row.forced < vocabulary, "a forced token is of the vocabulary");
    result.token = row.forced;
    result.key = 0;
  }
  if (row.logprobs < 0) return;
  if (row.raw_logprobs) {
    tokens = finite_tokens(raw.data(), vocabulary);
    write_logprobs({raw.data(), largest(raw.data(), tokens), 1.0f}, tokens, row.logprobs, result, top);
  } else {
    write_logprobs({z, largest(z, tokens), greedy ? 1.0f : 1.0f / row.temperature}, tokens, row.logprobs, result, top);
  }
}

}  // namespace

void add_rows(const AddRows& op) {
  DI_CHECK(op.x.columns == op.y.columns && op.x.rows == op.y.rows, "x and y have one shape");
  for (int64_t m = 0; m < op.x.rows; ++m) {
    for (int64_t i = 0; i < op.x.columns; ++i) op.y.row(m)[i] += op.x.row(m)[i];
  }
}

void sample(const Sample& op) {
  const auto rows = static_cast<size_t>(op.logits.rows);
  DI_CHECK(op.rows.size() == rows && op.result.size() == rows, "one request and one result a row");
  for (size_t m = 0; m < rows; ++m) {
    const auto at = static_cast<int64_t>(m);
    DI_CHECK(op.rows[m].logprobs <= op.top_logprobs.columns, "top_logprobs has a place for every log-probability");
    TokenLogprob* top = op.top_logprobs.columns > 0 ? op.top_logprobs.row(at) : nullptr;
    std::fill_n(top, top == nullptr ? 0 : op.top_logprobs.columns, TokenLogprob{});
    sample_row(op.rows[m], op.logits.row(at), op.logits.columns, op.result[m], top);
  }
}

}  // namespace deepinfer::reference
