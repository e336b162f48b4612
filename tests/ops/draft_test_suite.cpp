// Rejection sampling (DraftTest of ops/sample.h): whatever the drafts are drawn from, choices are distributed as the
// row's own logits after bias, penalties, mask and filters.
#include <cmath>
#include <map>
#include <string>

#include "ops/matrix.h"
#include "ops/sampler_suite.h"

namespace deepinfer {
namespace {

constexpr int64_t kVocabulary = 8;
constexpr int64_t kDraws = 40000;

// What a row asks for beside its logits, and the logits of the drafts.
struct Case {
  std::string name;
  SamplingRow row;
  std::vector<float> logits, draft_logits;
};

// Draws of a row at positions 0, 1, .. kDraws - 1, each with a draft drawn before; or without drafts.
std::vector<int64_t> histogram(Ops& ops, const Case& c, bool with_drafts, int64_t* accepted = nullptr) {
  Matrix<float> draft_logits(kDraws, kVocabulary), logits(kDraws, kVocabulary);
  std::vector<SamplingRow> draft_rows(kDraws), rows(kDraws, c.row);
  std::vector<SampledRow> drafts(kDraws), choices(kDraws);
  for (int64_t i = 0; i < kDraws; ++i) {
    std::copy(c.draft_logits.begin(), c.draft_logits.end(), draft_logits.row(i));
    std::copy(c.logits.begin(), c.logits.end(), logits.row(i));
    SamplingRow& draft = draft_rows[static_cast<size_t>(i)];
    draft.temperature = c.row.temperature;
    draft.seed = c.row.seed;
    draft.position = rows[static_cast<size_t>(i)].position = i;
    draft.stream = c.row.stream + kDraftStream;
  }
  if (with_drafts) {
    ops.sample({draft_logits.view(), draft_rows, drafts, {}});
    for (int64_t i = 0; i < kDraws; ++i) {
      rows[static_cast<size_t>(i)].draft = drafts[static_cast<size_t>(i)].token;
      rows[static_cast<size_t>(i)].draft_logits = draft_logits.row(i);
    }
  }
  ops.sample({logits.view(), rows, choices, {}});
  std::vector<int64_t> seen(kVocabulary);
  for (int64_t i = 0; i < kDraws; ++i) {
    const int32_t token = choices[static_cast<size_t>(i)].token;
    if (token >= 0) ++seen[static_cast<size_t>(token)];
    if (accepted != nullptr) *accepted += token == drafts[static_cast<size_t>(i)].token ? 1 : 0;
  }
  return seen;
}

// The distribution itself: log-probabilities of all tokens, as the sampler reports them without a draft.
std::vector<double> distribution(Ops& ops, const Case& c) {
  Matrix<float> logits(std::span<const float>(c.logits), kVocabulary);
  Matrix<TokenLogprob> top(1, kVocabulary);
  SamplingRow row = c.row;
  row.logprobs = kVocabulary;
  SampledRow choice;
  ops.sample({logits.view(), {&row, 1}, {&choice, 1}, top.view()});
  std::vector<double> p(kVocabulary);
  for (int64_t i = 0; i < kVocabulary; ++i) {
    const TokenLogprob& entry = top.row(0)[i];
    if (entry.token >= 0) p[static_cast<size_t>(entry.token)] = std::exp(double{entry.logprob});
  }
  return p;
}

// Pearson's statistic over the tokens that can be drawn; the others must not have been.
double chi_square(const std::vector<int64_t>& seen, const std::vector<double>& p, int64_t* freedom) {
  double sum = 0;
  *freedom = -1;
  for (size_t v = 0; v < p.size(); ++v) {
    const double expected = p[v] * static_cast<double>(kDraws);
    if (expected == 0) {
      EXPECT_EQ(seen[v], 0) << "token " << v;
      continue;
    }
    const double off = static_cast<double>(seen[v]) - expected;
    sum += off * off / expected;
    ++*freedom;
  }
  return sum;
}

const std::vector<float> kTarget = {0.3f, -1, 2, 0.5f, 1.2f, -0.4f, 0, 1.9f};
const std::vector<LogitBias> kBias = {{2, -1.5f}, {5, 2}};
const std::vector<TokenCount> kCounts = {{7, 1, 2}, {4, 0, 1}};
const uint32_t kAllowed = 0b10111010;

std::vector<Case> cases() {
  const std::map<std::string, std::vector<float>> drafters = {{"near", {0.4f, -1.1f, 1.7f, 0.5f, 1, -0.4f, 0.2f, 2}},
                                                              {"far", {2, 1, -2, 0, -1, 2, 1, -1}},
                                                              {"equal", kTarget},
                                                              {"one token", {-50, -50, -50, 0, -50, -50, -50, -50}}};
  std::vector<Case> all;
  uint64_t seed = 1;
  for (const auto& drafter : drafters) {
    const auto add = [&](const std::string& name, auto change) {
      Case c{name + ", drafter " + drafter.first, {}, kTarget, drafter.second};
      c.row.seed = seed++;
      change(c.row);
      all.push_back(std::move(c));
    };
    add("plain", [](SamplingRow&) {});
    add("temperature", [](SamplingRow& row) { row.temperature = 0.6f; });
    add("top-k", [](SamplingRow& row) { row.top_k = 3; });
    add("top-p", [](SamplingRow& row) { row.top_p = 0.7f; });
    add("min-p", [](SamplingRow& row) { row.min_p = 0.3f; });
    add("mask", [](SamplingRow& row) { row.allowed = &kAllowed; });
    add("everything", [](SamplingRow& row) {
      row.temperature = 1.4f;
      row.top_k = 6;
      row.top_p = 0.95f;
      row.logit_bias = kBias;
      row.counts = kCounts;
      row.repetition_penalty = 1.3f;
      row.presence_penalty = 0.4f;
      row.frequency_penalty = 0.2f;
      row.allowed = &kAllowed;
      row.stream = 512;
    });
  }
  return all;
}

}  // namespace

// The 99.99 % points of chi-square with 1 to 7 degrees of freedom; 28 cases and fixed seeds.
TEST_P(Sampler, ChoicesAfterDraftsAreDistributedAsWithoutThem) {
  const double limits[] = {0, 15.1, 18.4, 21.1, 23.5, 25.7, 27.9, 29.9};
  for (const Case& c : cases()) {
    const std::vector<double> p = distribution(*ops_, c);
    int64_t accepted = 0, freedom = 0;
    const double off = chi_square(histogram(*ops_, c, true, &accepted), p, &freedom);
    EXPECT_LT(off, limits[freedom]) << c.name << ", " << freedom << " degrees of freedom";
    // An accepted draft happens with the chance 1 - TV(p, q); so drafts are neither ignored nor always taken.
    double sum = 0, common = 0;
    std::vector<double> q;
    for (const float z : c.draft_logits) sum += q.emplace_back(std::exp(double{z} / double{c.row.temperature}));
    for (size_t v = 0; v < q.size(); ++v) common += std::min(p[v], q[v] / sum);
    EXPECT_NEAR(static_cast<double>(accepted) / kDraws, common, 0.012) << c.name;
  }
}

// That the test above can fail: with the noise of the choice in the draft, as exact matching has it, it does.
TEST_P(Sampler, SharedNoiseWouldNotDo) {
  Case c = cases()[0];
  c.draft_logits = {2, 1, -2, 0, -1, 2, 1, -1};
  Matrix<float> draft_logits(kDraws, kVocabulary), logits(kDraws, kVocabulary);
  std::vector<SamplingRow> rows(kDraws, c.row);
  std::vector<SampledRow> drafts(kDraws), choices(kDraws);
  for (int64_t i = 0; i < kDraws; ++i) {
    std::copy(c.draft_logits.begin(), c.draft_logits.end(), draft_logits.row(i));
    std::copy(c.logits.begin(), c.logits.end(), logits.row(i));
    rows[static_cast<size_t>(i)].position = i;
  }
  ops_->sample({draft_logits.view(), rows, drafts, {}});
  Matrix<float> plain = logits;
  ops_->sample({plain.view(), rows, choices, {}});
  std::vector<int64_t> seen(kVocabulary);
  for (int64_t i = 0; i < kDraws; ++i) {
    SamplingRow row = rows[static_cast<size_t>(i)];
    row.draft = drafts[static_cast<size_t>(i)].token;
    row.draft_logits = draft_logits.row(i);
    SampledRow tested;
    ops_->sample({logits.view().rows_from(i, 1), {&row, 1}, {&tested, 1}, {}});
    // Rejected: a draw from p with the noise that the draft was drawn with.
    const bool kept = tested.token == row.draft;
    ++seen[static_cast<size_t>(kept ? row.draft : choices[static_cast<size_t>(i)].token)];
  }
  int64_t freedom = 0;
  EXPECT_GT(chi_square(seen, distribution(*ops_, c), &freedom), 100);
}

TEST_P(Sampler, GreedyAndForcedRowsIgnoreADraft) {
  for (const float temperature : {0.0f, 0.9f}) {
    SamplingRow row;
    row.temperature = temperature;
    row.forced = temperature > 0 ? 3 : -1;
    row.logprobs = 2;
    SamplingRow drafted = row;
    drafted.draft = 5;
    drafted.draft_logits = kTarget.data();
    Matrix<float> one(std::span<const float>(kTarget), kVocabulary), two = one;
    Matrix<TokenLogprob> one_top(1, 2), two_top(1, 2);
    SampledRow want, got;
    ops_->sample({one.view(), {&row, 1}, {&want, 1}, one_top.view()});
    ops_->sample({two.view(), {&drafted, 1}, {&got, 1}, two_top.view()});
    EXPECT_EQ(got.token, want.token);
    EXPECT_EQ(got.logprob, want.logprob);
  }
}

}  // namespace deepinfer
