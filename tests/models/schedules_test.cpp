// Other schedules of layers than the demonstration model's, with random weights: whatever the schedule, chunks,
// skipping, rollback and continuation give the bits of one full pass.
#include <gtest/gtest.h>

#include <random>

#include "models/model_run.h"
#include "models/synthetic_model.h"

namespace deepinfer {
namespace {

using nlohmann::json;
using Kind = RowRule::Kind;

struct Schedule {
  std::string name;
  json edits;
  int first_skipping_layer;
};
void PrintTo(const Schedule& s, std::ostream* out) {
  *out << s.name;
}

const json kNoDraft = {{"num_nextn_predict_layers", 0}};
json without_draft(json edits) {
  edits.update(kNoDraft);
  return edits;
}

const Schedule kSchedules[] = {
    {"TwoSourcesOfRatioTwo",
     {{"num_hidden_layers", 9},
      {"compress_ratios", {0, 2, 2, 2, 1, 1, 1, 1, 1, 0, 0, 0}},
      {"kv_source_layer_ids", {1, 3, 4}},
      {"index_source_layer_ids", {1, 2, 3, 4, 6, 8}},
      {"engram_layer_ids", {0, 2}},
      {"dspark_target_layer_ids", {2, 5, 8}}},
     4},
    {"NoEngramNoPoolNoDraft",
     without_draft({{"num_hidden_layers", 5},
                    {"compress_ratios", {2, 2, 1, 1, 0}},
                    {"kv_source_layer_ids", {0, 2}},
                    {"index_source_layer_ids", {0, 2}},
                    {"candidate_source_layer_id", nullptr},
                    {"engram_layer_ids", json::array()},
                    {"rope_scaling", nullptr}}),
     2},
    {"WindowsOnly",
     without_draft({{"num_hidden_layers", 3},
                    {"compress_ratios", {0, 0, 0}},
                    {"kv_source_layer_ids", json::array()},
                    {"index_source_layer_ids", json::array()},
                    {"candidate_source_layer_id", nullptr},
                    {"engram_layer_ids", {1}}}),
     3},
    {"EveryLayerOfRatioOne",
     {{"num_hidden_layers", 4},
      {"compress_ratios", {1, 1, 1, 1, 0}},
      {"num_nextn_predict_layers", 1},
      {"kv_source_layer_ids", {0}},
      {"index_source_layer_ids", {0, 1, 3}},
      {"candidate_source_layer_id", 1},
      {"candidate_block_size", 16},
      {"engram_layer_ids", json::array()},
      {"dspark_target_layer_ids", {3}}},
     0},
    {"SecondSourceAfterTheFirstOfRatioOne",  // so nothing may be skipped
     {{"num_hidden_layers", 5},
      {"compress_ratios", {0, 2, 1, 1, 1, 0, 0}},
      {"num_nextn_predict_layers", 2},
      {"kv_source_layer_ids", {1, 2, 4}},
      {"index_source_layer_ids", {1, 2, 3, 4}},
      {"candidate_source_layer_id", nullptr},
      {"engram_layer_ids", {1}},
      {"dspark_target_layer_ids", {0, 4}}},
     5},
    {"RatioTwoWithoutDecoder",
     {{"num_hidden_layers", 4},
      {"compress_ratios", {2, 2, 2, 2, 0}},
      {"num_nextn_predict_layers", 1},
      {"kv_source_layer_ids", {0, 2}},
      {"index_source_layer_ids", {0, 1, 2, 3}},
      {"candidate_source_layer_id", 2},
      {"engram_layer_ids", {3}},
      {"dspark_target_layer_ids", {1, 2}}},
     4},
};

class Schedules : public testing::TestWithParam<Schedule> {};

TEST_P(Schedules, OneFullPassInManyWays) {
  const TemporaryFolder folder;
  write_synthetic_model(folder, synthetic_config(GetParam().edits), 17);
  constexpr int64_t kTokens = 150;  // windows reach 15 a layer; the pool holds 64 or 128 rows
  LoadedModel loaded({"reference", make_reference_ops}, {.rows = kTokens, .sequences = 2, .logit_rows = kTokens},
                     folder.path());
  EXPECT_EQ(loaded.model().layer_table().first_skipping_layer, GetParam().first_skipping_layer);
  std::mt19937 random(5);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < kTokens; ++i) ids.push_back(static_cast<int32_t>(random() % 512));
  SequenceRun whole(loaded);
  const Logits want = whole.run(ids, kTokens, 0);
  for (const Logits::value_type& row : want) {
    for (const float z : row) ASSERT_TRUE(std::isfinite(z));
  }
  const bool drafts = loaded.model().info().draft_tokens > 0;

  // Random chunks, with wrong rows rolled back after each where the model verifies drafts.
  SequenceRun run(loaded);
  while (run.processed() < kTokens) {
    const int64_t at = run.processed();
    const auto rows = static_cast<size_t>(std::min<int64_t>(1 + random() % 40, kTokens - at));
    const Logits got = run.run(std::span(ids).subspan(static_cast<size_t>(at), rows), 64, at);
    for (size_t i = 0; i < rows; ++i)
      ASSERT_EQ(got[i], want[static_cast<size_t>(at) + i]) << "position " << at << " + " << i;
    if (drafts) {
      const int64_t length = run.processed();
      const std::vector<int32_t> wrong{7, 8, 9};
      run.run(wrong, 3, length + 3);
      run.truncate(length);
    }
  }
  EXPECT_EQ(run.live_records(), whole.live_records());

  // Skipping, and a longer prompt that goes on.
  const RowRule rule{Kind::kExact, kTokens - 1};
  SequenceRun skipping(loaded, {Kind::kExact, 89});
  skipping.run(std::span(ids).first(90), 23, 89);
  ASSERT_TRUE(loaded.model().resumable({90, 90, 89}, 90, rule));
  skipping.set_rule(rule);
  const Logits last = skipping.run(std::span(ids).subspan(90), 23, kTokens - 1);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0], want.back());
  whole.set_rule(rule);
  EXPECT_EQ(skipping.live_records(), whole.live_records());
  if (!drafts) return;
  const DraftSequence a = skipping.draft_part(3, loaded.model().info().draft_tokens);
  const DraftSequence b = whole.draft_part(3, loaded.model().info().draft_tokens);
  const auto of = [&](const DraftSequence& s) {
    const DraftResult result = loaded.model().draft({&s, 1});
    return std::vector<float>(result.confidence.row(0), result.confidence.row(0) + result.confidence.columns);
  };
  EXPECT_EQ(of(a), of(b));
}

INSTANTIATE_TEST_SUITE_P(Random, Schedules, testing::ValuesIn(kSchedules),
                         [](const testing::TestParamInfo<Schedule>& info) { return info.param.name; });

}  // namespace
}  // namespace deepinfer
