// The sampler of the CPU paths beside the reference, bit for bit, on random logits with ties and every option.
#include <cmath>
#include <limits>

#include "backends/against_reference.h"

namespace deepinfer {
namespace {

struct Options {
  std::vector<LogitBias> bias;
  std::vector<TokenCount> counts;
  std::vector<uint32_t> allowed;
  std::vector<float> draft_logits;
};

float one_of(RandomData& random, std::initializer_list<float> values) {
  return values.begin()[random.below(static_cast<int64_t>(values.size()))];
}

SamplingRow random_row(RandomData& random, int64_t vocabulary, Options& options) {
  SamplingRow row;
  row.temperature = one_of(random, {0, 1e-4f, 0.3f, 1, 1, 2.5f});
  row.top_p = one_of(random, {1, 1, 0.95f, 0.5f, 0, 0.9999999f});
  row.min_p = one_of(random, {0, 0, 0.05f, 1});
  row.top_k = static_cast<int32_t>(one_of(random, {0, 0, 1, 5, 50, 5000}));
  row.repetition_penalty = one_of(random, {1, 1.2f, 0.5f});
  row.presence_penalty = one_of(random, {0, 0.7f});
  row.frequency_penalty = one_of(random, {0, 0.3f, -0.4f});
  row.seed = random.word();
  row.position = random.below(int64_t{1} << 32);
  row.stream = static_cast<uint32_t>(random.below(3)) * 256;
  row.logprobs = static_cast<int32_t>(one_of(random, {-1, 0, 3, 20}));
  row.raw_logprobs = random.below(2) == 0;
  for (int64_t v = 0; v < vocabulary; v += 1 + random.below(vocabulary / 3 + 1)) {
    options.bias.push_back({static_cast<int32_t>(v), one_of(random, {-3, 2, 0, -100})});
    options.counts.push_back(
        {static_cast<int32_t>(v), static_cast<int32_t>(random.below(3)), static_cast<int32_t>(random.below(3))});
  }
  row.logit_bias = options.bias;
  row.counts = options.counts;
  if (random.below(3) == 0) {
    options.allowed.resize(static_cast<size_t>((vocabulary + 31) / 32));
    for (uint32_t& word : options.allowed) word = static_cast<uint32_t>(random.word() & random.word());
    row.allowed = options.allowed.data();
  }
  return row;
}

// Drafts from a distribution that is near the row's own in some rows and far in others.
void add_draft(RandomData& random, std::span<const float> z, SamplingRow& row, Options& options) {
  if (random.below(2) == 0) return;
  const float far = one_of(random, {0, 0.01f, 1, 10});
  for (const float value : z) {
    const float moved = value + far * static_cast<float>(random.below(1000)) * 1e-3f;
    options.draft_logits.push_back(std::isnan(moved) || moved > 1e38f ? 0 : moved);
  }
  options.draft_logits[0] = 1;  // one is finite
  row.draft = static_cast<int32_t>(random.below(static_cast<int64_t>(z.size())));
  row.draft_logits = options.draft_logits.data();
}

Matrix<float> random_logits(RandomData& random, int64_t rows, int64_t vocabulary) {
  Matrix<float> z = random.floats(rows, vocabulary, 3);
  for (int64_t m = 0; m < rows; ++m) {
    const int64_t kind = random.below(6);
    for (int64_t v = 0; v < vocabulary; ++v) {
      float& x = z.row(m)[v];
      if (kind == 0) x = std::floor(x * 2) / 2 * (random.below(2) == 0 ? 1.0f : -1.0f);  // ties, zeros of both signs
      if (kind == 1) x = 2;
      if (kind == 2 && random.below(2) == 0) x = -std::numeric_limits<float>::infinity();
      if (kind == 3) x *= 1e36f;
    }
  }
  if (rows > 6) {
    z.row(4)[vocabulary / 2] = std::numeric_limits<float>::quiet_NaN();
    z.row(5)[vocabulary - 1] = std::numeric_limits<float>::infinity();
    for (int64_t v = 0; v < vocabulary; ++v) z.row(6)[v] = -std::numeric_limits<float>::infinity();
  }
  return z;
}

TEST_P(AgainstReference, Sample) {
  RandomData random(40);
  for (const auto& [rows, vocabulary] : {std::pair<int64_t, int64_t>{200, 7},
                                         {100, 100},
                                         {60, 4096},
                                         {2, 129280},
                                         {1, 129280},
                                         {1, 20001},
                                         {1, 20001}}) {
    std::vector<Options> options(static_cast<size_t>(rows));
    std::vector<SamplingRow> asked;
    for (auto& option : options) asked.push_back(random_row(random, vocabulary, option));
    Matrix<float> got_z = random_logits(random, rows, vocabulary), want_z = got_z;
    for (int64_t m = 0; m < rows; ++m)
      add_draft(random, got_z.row_values(m), asked[static_cast<size_t>(m)], options[static_cast<size_t>(m)]);
    std::vector<SampledRow> got(asked.size()), want(asked.size());
    Matrix<TokenLogprob> got_top(rows, 20), want_top(rows, 20);
    ops_->sample({got_z.view(), asked, got, got_top.view()});
    reference_->sample({want_z.view(), asked, want, want_top.view()});
    for (int64_t m = 0; m < rows; ++m) {
      EXPECT_TRUE(same_bits<SampledRow>({&got[m], 1}, {&want[m], 1}))
          << "row " << m << " of vocabulary " << vocabulary << ": token " << got[m].token << " of " << got[m].kept
          << " key " << got[m].key << " logprob " << got[m].logprob << ", not " << want[m].token << " of "
          << want[m].kept << " key " << want[m].key << " logprob " << want[m].logprob;
      EXPECT_TRUE(same_bits(got_top.row_values(m), want_top.row_values(m))) << "row " << m << " of " << vocabulary;
    }
    EXPECT_TRUE(same_bits<float>(got_z.values(), want_z.values())) << "bias, penalties and mask are applied in place";
  }
}

}  // namespace
}  // namespace deepinfer
