#include "ops/sampler_suite.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "ops/matrix.h"
#include "ops/sampling_cases.h"

namespace deepinfer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Outcome {
  std::vector<SampledRow> rows;
  Matrix<TokenLogprob> top;
  Matrix<float> logits;  // after the call
};

Outcome draw(Ops& ops, Matrix<float> logits, const std::vector<SamplingRow>& rows) {
  int32_t most = 0;
  for (const SamplingRow& row : rows) most = std::max(most, row.logprobs);
  Outcome outcome{std::vector<SampledRow>(rows.size()), Matrix<TokenLogprob>(logits.rows(), most), std::move(logits)};
  ops.sample({.logits = outcome.logits.view(),
              .rows = rows,
              .result = outcome.rows,
              .top_logprobs = most > 0 ? outcome.top.view() : MatrixView<TokenLogprob>()});
  return outcome;
}

Outcome draw_one(Ops& ops, std::span<const float> logits, const SamplingRow& row) {
  return draw(ops, Matrix<float>(logits, static_cast<int64_t>(logits.size())), {row});
}

void expect_same(const SampledRow& a, const SampledRow& b) {
  EXPECT_EQ(a.token, b.token);
  EXPECT_EQ(a.kept, b.kept);
  EXPECT_EQ(std::bit_cast<uint32_t>(a.key), std::bit_cast<uint32_t>(b.key));
  EXPECT_EQ(std::bit_cast<uint32_t>(a.logprob), std::bit_cast<uint32_t>(b.logprob));
}

// log-softmax of z / temperature in double precision over the finite entries.
std::vector<double> exact_logprobs(std::span<const float> z, double temperature) {
  double top = -kInfinity;
  for (const float v : z) top = std::max(top, double{v});
  double sum = 0;
  for (const float v : z) sum += std::exp((v - top) / temperature);
  std::vector<double> out;
  for (const float v : z) out.push_back((v - top) / temperature - std::log(sum));
  return out;
}

double tolerance(double logprob) {
  return 1e-6 + 2e-7 * std::abs(logprob);
}

}  // namespace

TEST_P(Sampler, GoldenChoices) {
  for (SamplingCase& c : sampling_choices()) {
    if (!c.allowed.empty()) c.row.allowed = c.allowed.data();
    const SampledRow got = draw_one(*ops_, c.logits, c.row).rows[0];
    EXPECT_EQ(got.token, c.token);
    EXPECT_EQ(got.kept, c.kept);
    EXPECT_EQ(std::bit_cast<uint32_t>(got.key), c.key_bits);
  }
}

TEST_P(Sampler, GoldenChoicesTogether) {
  std::map<size_t, std::vector<SamplingCase>> by_vocabulary;
  for (SamplingCase& c : sampling_choices()) by_vocabulary[c.logits.size()].push_back(std::move(c));
  for (auto& [vocabulary, cases] : by_vocabulary) {
    Matrix<float> logits(static_cast<int64_t>(cases.size()), static_cast<int64_t>(vocabulary));
    std::vector<SamplingRow> rows;
    for (size_t i = 0; i < cases.size(); ++i) {
      std::copy(cases[i].logits.begin(), cases[i].logits.end(), logits.row(static_cast<int64_t>(i)));
      if (!cases[i].allowed.empty()) cases[i].row.allowed = cases[i].allowed.data();
      rows.push_back(cases[i].row);
    }
    const Outcome outcome = draw(*ops_, std::move(logits), rows);
    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_EQ(outcome.rows[i].token, cases[i].token);
      EXPECT_EQ(std::bit_cast<uint32_t>(outcome.rows[i].key), cases[i].key_bits);
    }
  }
}

TEST_P(Sampler, GreedyAppliesBiasPenaltiesAndMask) {
  const std::vector<float> logits = {1, 5, 4, -2, 3.5f};
  SamplingRow row;
  row.temperature = 0;
  EXPECT_EQ(draw_one(*ops_, logits, row).rows[0].token, 1);

  const std::vector<LogitBias> bias = {{4, 2.0f}};
  row.logit_bias = bias;
  EXPECT_EQ(draw_one(*ops_, logits, row).rows[0].token, 4);
  EXPECT_EQ(draw_one(*ops_, logits, row).rows[0].key, 5.5f);

  const std::vector<TokenCount> counts = {{4, 1, 0}, {1, 0, 3}, {3, 2, 1}};
  row.counts = counts;
  EXPECT_EQ(draw_one(*ops_, logits, row).rows[0].token, 4) << "counts alone change nothing";
  row.repetition_penalty = 2;  // 4: 2.75, 1: 2.5, 3: -4
  EXPECT_EQ(draw_one(*ops_, logits, row).rows[0].token, 2);
  row.repetition_penalty = 1;
  row.presence_penalty = 1;  // of output only: 1 and 3
  row.frequency_penalty = 0.5f;
  const Outcome outcome = draw_one(*ops_, logits, row);
  EXPECT_EQ(outcome.rows[0].token, 4);
  const std::vector<float> adjusted = {1, 5 - 1 - 1.5f, 4, -2 - 1 - 0.5f, 5.5f};
  EXPECT_TRUE(std::equal(adjusted.begin(), adjusted.end(), outcome.logits.values().begin())) << "changed in place";

  row.repetition_penalty = 2;  // first repetition, then presence, then frequency
  const Outcome all = draw_one(*ops_, logits, row);
  const std::vector<float> after = {1, 2.5f - 1 - 1.5f, 4, -4 - 1 - 0.5f, 2.75f};
  EXPECT_TRUE(std::equal(after.begin(), after.end(), all.logits.values().begin()));

  const uint32_t allowed = 0b01001;
  row.allowed = &allowed;
  EXPECT_EQ(draw_one(*ops_, logits, row).rows[0].token, 0);
}

TEST_P(Sampler, GreedyTakesTheLowestOfEqualsAndMinusZeroEqualsZero) {
  SamplingRow row;
  row.temperature = 0;
  EXPECT_EQ(draw_one(*ops_, std::vector<float>{-1, 2, 2, -3, 2}, row).rows[0].token, 1);
  EXPECT_EQ(draw_one(*ops_, std::vector<float>{-1, -0.0f, 0.0f}, row).rows[0].token, 1);
  EXPECT_EQ(draw_one(*ops_, std::vector<float>{-kInfinity, -1e38f}, row).rows[0].token, 1);
  row.temperature = 0.99e-5f;
  EXPECT_EQ(draw_one(*ops_, std::vector<float>{1, 3, 2}, row).rows[0].kept, 1);
}

TEST_P(Sampler, LowestIdOfEqualKeys) {
  // 10000 / 1.1e-5 has steps of 64, so the noise is lost and all keys are equal.
  const std::vector<float> logits(700, 10000.0f);
  SamplingRow row;
  row.temperature = 1.1e-5f;
  row.seed = 3;
  EXPECT_EQ(draw_one(*ops_, logits, row).rows[0].token, 0);
  std::vector<uint32_t> allowed(22, ~0u);
  allowed[0] = 0xFFFFFE00u;
  row.allowed = allowed.data();
  EXPECT_EQ(draw_one(*ops_, logits, row).rows[0].token, 9);
  row.top_p = 0.5f;
  EXPECT_EQ(draw_one(*ops_, logits, row).rows[0].token, 9);
}

TEST_P(Sampler, ImpossibleRowsFailAlone) {
  constexpr int64_t kVocabulary = 300;
  const std::vector<float> good = made_up_logits("flat", kVocabulary, 7);
  SamplingRow plain;
  plain.seed = 5;
  plain.logprobs = 2;
  const Outcome alone = draw_one(*ops_, good, plain);

  const std::vector<uint32_t> nothing((kVocabulary + 31) / 32, 0);
  std::vector<uint32_t> all_but_100((kVocabulary + 31) / 32, ~0u);
  all_but_100[100 / 32] &= ~(1u << (100 % 32));
  for (const float temperature : {0.0f, 1.0f}) {
    SamplingRow row = plain;
    row.temperature = temperature;
    SamplingRow masked = row;
    masked.allowed = nothing.data();
    SamplingRow masks_the_nan = row;
    masks_the_nan.allowed = all_but_100.data();
    Matrix<float> logits(7, kVocabulary);
    for (int64_t m = 0; m < 7; ++m) std::copy(good.begin(), good.end(), logits.row(m));
    logits.row(0)[299] = kNan;
    logits.row(1)[17] = kInfinity;
    std::fill_n(logits.row(2), kVocabulary, -kInfinity);
    logits.row(5)[100] = kNan;  // a broken row is broken even where the mask hides it
    logits.row(6)[3] = -kInfinity;
    const Outcome outcome = draw(*ops_, std::move(logits), {row, row, row, plain, masked, masks_the_nan, row});
    for (const size_t failed : {0, 1, 2, 4, 5}) {
      expect_same(outcome.rows[failed], SampledRow{});
      EXPECT_EQ(outcome.top.row(static_cast<int64_t>(failed))[0].token, -1);
    }
    expect_same(outcome.rows[3], alone.rows[0]);
    EXPECT_GE(outcome.rows[6].token, 0);
  }
}

TEST_P(Sampler, RawLogprobsAreTheLogSoftmaxOfTheModel) {
  for (const std::string kind : {"flat", "peaked", "ties", "equal"}) {
    const std::vector<float> logits = made_up_logits(kind, 4096, 11);
    const std::vector<double> exact = exact_logprobs(logits, 1);
    const std::vector<LogitBias> bias = {{17, 100.0f}};
    SamplingRow row;
    row.temperature = 0.3f;
    row.top_k = 4;
    row.logit_bias = bias;  // draws token 17, whose raw log-probability is an ordinary one
    row.logprobs = 20;
    row.raw_logprobs = true;
    const Outcome outcome = draw_one(*ops_, logits, row);
    EXPECT_EQ(outcome.rows[0].token, 17);
    EXPECT_NEAR(outcome.rows[0].logprob, exact[17], tolerance(exact[17]));

    std::vector<int32_t> order(logits.size());
    for (size_t v = 0; v < order.size(); ++v) order[v] = static_cast<int32_t>(v);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
    for (int i = 0; i < 20; ++i) {
      const TokenLogprob got = outcome.top.row(0)[i];
      EXPECT_EQ(got.token, order[i]) << kind;
      EXPECT_NEAR(got.logprob, exact[order[i]], tolerance(exact[order[i]])) << kind;
    }
  }
}

TEST_P(Sampler, ProcessedLogprobsAreThoseOfTheDistributionDrawnFrom) {
  const std::vector<float> logits = made_up_logits("peaked", 4096, 3);
  SamplingRow row;
  row.temperature = 0.8f;
  row.top_p = 0.95f;
  row.top_k = 30;
  row.logprobs = 40;
  for (int64_t position = 0; position < 20; ++position) {
    row.position = position;
    const Outcome outcome = draw_one(*ops_, logits, row);
    const int32_t kept = outcome.rows[0].kept;
    ASSERT_LT(kept, 40);
    std::vector<float> z;
    double sum = 0;
    bool has_choice = false;
    for (int32_t i = 0; i < kept; ++i) {
      const TokenLogprob entry = outcome.top.row(0)[i];
      z.push_back(logits[entry.token]);
      sum += std::exp(double{entry.logprob});
      if (entry.token == outcome.rows[0].token) {
        has_choice = true;
        EXPECT_EQ(entry.logprob, outcome.rows[0].logprob);
      }
    }
    EXPECT_TRUE(has_choice);
    EXPECT_NEAR(sum, 1, 1e-6);
    const std::vector<double> exact = exact_logprobs(z, double{row.temperature});
    for (int32_t i = 0; i < kept; ++i) EXPECT_NEAR(outcome.top.row(0)[i].logprob, exact[i], tolerance(exact[i]));
    for (int32_t i = kept; i < 40; ++i) EXPECT_EQ(outcome.top.row(0)[i].token, -1) << "filtered tokens are not listed";
  }
}

TEST_P(Sampler, GreedyProcessedLogprobsKeepEveryAllowedToken) {
  const std::vector<float> logits = {0, 1, 2, 3};
  const uint32_t allowed = 0b0111;
  SamplingRow row;
  row.temperature = 0;
  row.allowed = &allowed;
  row.logprobs = 4;
  const Outcome outcome = draw_one(*ops_, logits, row);
  const std::vector<double> exact = exact_logprobs(std::span(logits).first(3), 1);
  EXPECT_EQ(outcome.rows[0].token, 2);
  EXPECT_NEAR(outcome.rows[0].logprob, exact[2], tolerance(exact[2]));
  EXPECT_EQ(outcome.top.row(0)[2].token, 0);
  EXPECT_NEAR(outcome.top.row(0)[2].logprob, exact[0], tolerance(exact[0]));
  EXPECT_EQ(outcome.top.row(0)[3].token, -1);
}

// A forced token has the log-probability that it has when it is drawn or listed; others are not touched by it.
TEST_P(Sampler, AForcedTokenIsTheChoiceAndChangesNothingElse) {
  for (SamplingCase& c : sampling_choices()) {
    if (!c.allowed.empty()) c.row.allowed = c.allowed.data();
    c.row.logprobs = 3;
    const Outcome drawn = draw_one(*ops_, c.logits, c.row);
    for (int64_t i = -1; i < 3; ++i) {
      const TokenLogprob want = i < 0 ? TokenLogprob{drawn.rows[0].token, drawn.rows[0].logprob} : drawn.top.row(0)[i];
      if (want.token < 0) continue;
      c.row.forced = want.token;
      const Outcome forced = draw_one(*ops_, c.logits, c.row);
      EXPECT_EQ(forced.rows[0].token, want.token);
      EXPECT_EQ(std::bit_cast<uint32_t>(forced.rows[0].logprob), std::bit_cast<uint32_t>(want.logprob));
      EXPECT_EQ(forced.rows[0].kept, drawn.rows[0].kept);
      EXPECT_EQ(forced.rows[0].key, 0);
      for (int64_t k = 0; k < 3; ++k) EXPECT_EQ(forced.top.row(0)[k].token, drawn.top.row(0)[k].token);
    }
  }
}

TEST_P(Sampler, AForcedTokenOutsideTheFiltersHasNoProbability) {
  SamplingRow row;
  row.top_k = 1;
  row.logprobs = 0;
  row.forced = 2;
  const float logits[] = {3, 2, 1};
  const SampledRow got = draw_one(*ops_, logits, row).rows[0];
  EXPECT_EQ(got.token, 2);
  EXPECT_EQ(got.kept, 1);
  EXPECT_EQ(got.logprob, -kInfinity);
}

// Everything at once on random rows: equal to the reference, and to itself in any company.
TEST_P(Sampler, EqualsTheReferenceInRandomCompany) {
  std::mt19937_64 random(1);
  const auto chance = [&](double p) { return std::uniform_real_distribution<>(0, 1)(random) < p; };
  const auto between = [&](double a, double b) {
    return static_cast<float>(std::uniform_real_distribution<>(a, b)(random));
  };
  const std::unique_ptr<Ops> reference = make_reference_ops();
  const char* kinds[] = {"flat", "peaked", "ties", "equal"};
  for (int round = 0; round < 40; ++round) {
    const int64_t vocabulary =
        round % 2 == 0 ? 1 + static_cast<int64_t>(random() % 70) : 1000 + static_cast<int64_t>(random() % 3000);
    const int64_t count = 1 + static_cast<int64_t>(random() % 6);
    Matrix<float> logits(count, vocabulary);
    std::vector<SamplingRow> rows(static_cast<size_t>(count));
    std::vector<std::vector<LogitBias>> biases(rows.size());
    std::vector<std::vector<TokenCount>> counts(rows.size());
    std::vector<std::vector<uint32_t>> masks(rows.size());
    std::vector<std::vector<float>> drafts(rows.size());
    for (size_t m = 0; m < rows.size(); ++m) {
      const auto made = made_up_logits(kinds[random() % 4], vocabulary, random());
      std::copy(made.begin(), made.end(), logits.row(static_cast<int64_t>(m)));
      SamplingRow& row = rows[m];
      row.temperature = chance(0.2) ? 0 : between(0.05, 2);
      if (chance(0.5)) row.top_k = static_cast<int32_t>(random() % 60);
      if (chance(0.5)) row.top_p = between(0, 1.1);
      if (chance(0.3)) row.min_p = between(0, 0.3);
      row.seed = random();
      row.position = static_cast<int64_t>(random() % (1u << 20));
      row.stream = chance(0.3) ? 256 : 0;
      row.logprobs = static_cast<int32_t>(random() % 8) - 1;
      row.raw_logprobs = chance(0.5);
      if (chance(0.3)) {
        masks[m].resize(static_cast<size_t>((vocabulary + 31) / 32));
        for (uint32_t& word : masks[m]) word = static_cast<uint32_t>(random() & random());
        row.allowed = masks[m].data();
      }
      for (int64_t v = 0; v < vocabulary; ++v) {
        if (chance(0.01)) biases[m].push_back({static_cast<int32_t>(v), between(-5, 5)});
        if (chance(0.02)) {
          counts[m].push_back(
              {static_cast<int32_t>(v), static_cast<int32_t>(random() % 3), static_cast<int32_t>(random() % 4)});
        }
      }
      row.logit_bias = biases[m];
      row.counts = counts[m];
      if (chance(0.2)) row.forced = static_cast<int32_t>(random() % static_cast<uint64_t>(vocabulary));
      if (chance(0.3)) {
        drafts[m] = made_up_logits(kinds[random() % 4], vocabulary, random());
        row.draft = static_cast<int32_t>(random() % static_cast<uint64_t>(vocabulary));
        row.draft_logits = drafts[m].data();
      }
      if (chance(0.5)) row.repetition_penalty = between(0.5, 2);
      if (chance(0.5)) row.presence_penalty = between(-2, 2);
      if (chance(0.5)) row.frequency_penalty = between(-2, 2);
    }
    const Outcome want = draw(*reference, logits, rows);
    const Outcome got = draw(*ops_, logits, rows);
    EXPECT_TRUE(std::equal(want.logits.values().begin(), want.logits.values().end(), got.logits.values().begin()));
    for (size_t m = 0; m < rows.size(); ++m) {
      const auto at = static_cast<int64_t>(m);
      expect_same(want.rows[m], got.rows[m]);
      const Outcome alone = draw_one(*ops_, logits.row_values(at), rows[m]);
      expect_same(alone.rows[0], got.rows[m]);
      for (int64_t i = 0; i < rows[m].logprobs; ++i) {
        for (const TokenLogprob other : {want.top.row(at)[i], alone.top.row(0)[i]}) {
          EXPECT_EQ(other.token, got.top.row(at)[i].token);
          EXPECT_EQ(std::bit_cast<uint32_t>(other.logprob), std::bit_cast<uint32_t>(got.top.row(at)[i].logprob));
        }
      }
    }
  }
}

}  // namespace deepinfer
