// One sequence, many ways to run it, one result: logits and cached records are compared bit for bit.
#include <algorithm>
#include <numeric>

#include "models/golden_prompts.h"
#include "models/model_run.h"
#include "models/model_suites.h"

namespace deepinfer {
namespace {

using Kind = RowRule::Kind;

std::vector<int32_t> prompt_tokens(int64_t count) {
  auto ids = ForwardGolden("recall").ids();
  DI_CHECK(count <= static_cast<int64_t>(ids.size()), "the prompt is long enough");
  ids.resize(static_cast<size_t>(count));
  return ids;
}

StepLimits limits_for(int64_t tokens) {
  return {.rows = std::max<int64_t>(tokens, 200), .sequences = 3, .logit_rows = tokens};
}

void expect_same(const Logits& got, const Logits& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    const bool same = std::equal(got[i].begin(), got[i].end(), want[i].begin(), want[i].end());
    ASSERT_TRUE(same) << what << ": logits of row " << i << " of " << got.size();
  }
}

void expect_same_records(const SequenceRun& got, const SequenceRun& want, const std::string& what) {
  const auto a = got.live_records();
  const auto b = want.live_records();
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) ASSERT_TRUE(a[i] == b[i]) << what << ": records of group part " << i;
}

Logits tail(const Logits& all, size_t count) {
  return {all.end() - static_cast<std::ptrdiff_t>(count), all.end()};
}

TEST_P(ExactModel, ChunksOfAnySize) {
  const auto ids = prompt_tokens(GetParam().tokens);
  LoadedModel loaded(GetParam().backend, limits_for(GetParam().tokens));
  SequenceRun whole(loaded);
  const Logits want = whole.run(ids, GetParam().tokens, 0);
  for (const int64_t chunk : GetParam().chunks) {
    SequenceRun run(loaded);
    expect_same(run.run(ids, chunk, 0), want, "chunks of " + std::to_string(chunk));
    expect_same_records(run, whole, "chunks of " + std::to_string(chunk));
  }
}

// Rows whose drafts were wrong are rolled back; the rows that stay, and all that follows, are as if they had never
// been.
TEST_P(ExactModel, VerifyRoundsWithRollback) {
  const auto ids = prompt_tokens(GetParam().tokens);
  const auto count = static_cast<int64_t>(ids.size());
  LoadedModel loaded(GetParam().backend, limits_for(GetParam().tokens));
  SequenceRun whole(loaded);
  const Logits want = whole.run(ids, GetParam().tokens, 0);
  SequenceRun run(loaded);
  int64_t at = count - 47;
  run.run(std::span(ids).first(static_cast<size_t>(at)), 64, count);
  for (int64_t round = 0; at < count; ++round) {
    const int64_t right = std::min<int64_t>(1 + round % 4, count - at);  // rows that hold the sequence's own tokens
    std::vector<int32_t> rows(ids.begin() + at, ids.begin() + at + right);
    while (rows.size() < 6)
      rows.push_back(static_cast<int32_t>((round * 131 + static_cast<int64_t>(rows.size()) * 17) % 4096));
    Logits got = run.run(rows, 6, at);
    got.resize(static_cast<size_t>(right));
    expect_same(got, Logits(want.begin() + at, want.begin() + at + right), "round " + std::to_string(round));
    at += right;
    run.truncate(at);
  }
  expect_same_records(run, whole, "after verify rounds");
}

TEST_P(ExactModel, SkippedPrefillRowsChangeNothing) {
  const int64_t more = 9;  // decoded after the prompt
  const auto ids = prompt_tokens(GetParam().tokens);
  const int64_t prompt = GetParam().tokens - more;
  LoadedModel loaded(GetParam().backend, limits_for(GetParam().tokens));
  SequenceRun full(loaded);
  const Logits want = tail(full.run(ids, GetParam().tokens, prompt - 1), static_cast<size_t>(more + 1));
  const RowRule rule{Kind::kExact, prompt - 1};
  full.set_rule(rule);  // compares the records that the rule keeps
  auto chunks = GetParam().chunks;
  chunks.push_back(prompt);
  for (const int64_t chunk : chunks) {
    if (chunk == 1 && prompt > 300) continue;  // the next test's
    SequenceRun run(loaded, rule);
    Logits got = run.run(std::span(ids).first(static_cast<size_t>(prompt)), chunk, prompt - 1);
    for (const auto& row : run.run(std::span(ids).last(static_cast<size_t>(more)), 1, prompt)) got.push_back(row);
    expect_same(got, want, "chunks of " + std::to_string(chunk));
    expect_same_records(run, full, "chunks of " + std::to_string(chunk));
  }
}

// v41-model.md 3.4: a longer prompt goes on from the end of a shorter one's exact pass.
TEST_P(ExactModel, LongerPromptContinuesAShorterOne) {
  const auto ids = prompt_tokens(GetParam().tokens);
  const auto count = static_cast<int64_t>(ids.size());
  LoadedModel loaded(GetParam().backend, limits_for(GetParam().tokens));
  const RowRule rule{Kind::kExact, count - 1};
  SequenceRun fresh(loaded, rule);
  const Logits want = fresh.run(ids, 128, count - 1);
  for (const int64_t first : {count / 2 - 1, count / 2, count - 6}) {
    SequenceRun run(loaded, {Kind::kExact, first - 1});
    run.run(std::span(ids).first(static_cast<size_t>(first)), 100, first - 1);
    ASSERT_TRUE(loaded.model().resumable({first, first, first - 1}, first, rule));
    run.set_rule(rule);
    expect_same(run.run(std::span(ids).subspan(static_cast<size_t>(first)), 100, count - 1), want,
                std::to_string(first));
  }
}

// Three sequences of different lengths and rules share steps, and none notices.
TEST_P(ExactModel, CompanyInAStep) {
  const auto ids = prompt_tokens(GetParam().tokens);
  const auto count = static_cast<int64_t>(ids.size());
  struct Member {
    std::vector<int32_t> ids;
    RowRule rule;
    int64_t chunk;
  };
  std::vector<Member> members;
  members.push_back({ids, {Kind::kExact, count - 1}, 90});
  members.push_back({{ids.rbegin(), ids.rbegin() + count / 2}, {Kind::kEveryRow, 0}, 31});
  members.push_back({{ids.begin() + 7, ids.begin() + 7 + count / 3}, {Kind::kExact, count / 3 - 1}, 64});
  LoadedModel loaded(GetParam().backend, limits_for(GetParam().tokens));
  std::vector<std::unique_ptr<SequenceRun>> alone, together;
  std::vector<Logits> want(3), got(3);
  for (size_t m = 0; m < 3; ++m) {
    alone.push_back(std::make_unique<SequenceRun>(loaded, members[m].rule));
    together.push_back(std::make_unique<SequenceRun>(loaded, members[m].rule));
    want[m] = alone[m]->run(members[m].ids, count, static_cast<int64_t>(members[m].ids.size()) - 1);
  }
  while (true) {
    std::vector<StepSequence> step;
    std::vector<size_t> who;
    for (size_t m = 0; m < 3; ++m) {
      const auto done = static_cast<size_t>(together[m]->processed());
      const auto rows = std::min(static_cast<size_t>(members[m].chunk), members[m].ids.size() - done);
      if (rows == 0) continue;
      who.push_back(m);
      step.push_back(together[m]->part(std::span(members[m].ids).subspan(done, rows),
                                       static_cast<int64_t>(members[m].ids.size()) - 1));
    }
    if (step.empty()) break;
    const Logits logits = read_rows(loaded.memory(), loaded.model().forward(step));
    size_t row = 0;
    for (size_t i = 0; i < who.size(); ++i) {
      if (step[i].position + step[i].rows == static_cast<int64_t>(members[who[i]].ids.size())) {
        ASSERT_LT(row, logits.size());
        got[who[i]].push_back(logits[row++]);
      }
    }
    ASSERT_EQ(row, logits.size());
  }
  for (size_t m = 0; m < 3; ++m) {
    expect_same(got[m], want[m], "member " + std::to_string(m));
    expect_same_records(*together[m], *alone[m], "member " + std::to_string(m));
  }

  // Drafts too.
  const std::vector<DraftSequence> all{together[0]->draft_part(5, 5), together[1]->draft_part(6, 3),
                                       together[2]->draft_part(7, 5)};
  const DraftResult block = loaded.model().draft(all);
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<float>> confidence;
  for (int64_t m = 0; m < 3; ++m) {
    tokens.emplace_back(block.tokens.row(m), block.tokens.row(m) + 5);
    confidence.emplace_back(block.confidence.row(m), block.confidence.row(m) + 5);
  }
  EXPECT_EQ(tokens[1][3], -1);
  for (size_t m = 0; m < 3; ++m) {
    const DraftSequence one = alone[m]->draft_part(all[m].token, all[m].drafts);
    const DraftResult single = loaded.model().draft({&one, 1});
    EXPECT_TRUE(std::equal(tokens[m].begin(), tokens[m].end(), single.tokens.row(0)));
    // Past the wanted drafts the chain goes on from any token.
    EXPECT_TRUE(std::equal(confidence[m].begin(), confidence[m].begin() + one.drafts, single.confidence.row(0)));
  }
}

TEST_P(ExactModel, BoundedReplay) {
  const auto ids = prompt_tokens(GetParam().tokens);
  const auto count = static_cast<int64_t>(ids.size());
  LoadedModel loaded(GetParam().backend, limits_for(GetParam().tokens));
  SequenceRun full(loaded);
  const Logits want = full.run(ids, count, count - 1);
  // A tail as long as all that exact mode keeps is exact.
  const int64_t kept = layer_cut(loaded.model().config(), loaded.model().layer_table(), {Kind::kExact, count - 1},
                                 loaded.model().layer_table().first_skipping_layer)
                           .window;
  SequenceRun exact(loaded, {Kind::kBoundedReplay, kept});
  expect_same(exact.run(ids, 100, count - 1), want, "the whole reach kept");

  const RowRule rule{Kind::kBoundedReplay, std::max<int64_t>(0, count - 140)};
  SequenceRun whole(loaded, rule);
  const Logits near = whole.run(ids, count, count - 1);
  for (const int64_t chunk : GetParam().chunks) {
    if (chunk == 1 && count > 300) continue;
    SequenceRun run(loaded, rule);
    expect_same(run.run(ids, chunk, count - 1), near, "chunks of " + std::to_string(chunk));
  }
  float worst = 0;
  for (size_t i = 0; i < want[0].size(); ++i) worst = std::max(worst, std::abs(want[0][i] - near[0][i]));
  EXPECT_LE(worst, 0.5f);
  RecordProperty("largest_change", std::to_string(worst));
  const auto best = [](const std::vector<float>& z) { return std::max_element(z.begin(), z.end()) - z.begin(); };
  EXPECT_EQ(best(want[0]), best(near[0]));
}

}  // namespace
}  // namespace deepinfer
