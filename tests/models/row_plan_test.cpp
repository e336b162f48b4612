// The host plan: which rows run where, what a sequence keeps, and when it may be gone on from.
#include "models/deepseek_v41/row_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

#include "models/deepseek_v41/active_rows.h"
#include "models/test_configs.h"

namespace deepinfer::deepseek_v41 {
namespace {

struct Plan {
  explicit Plan(const nlohmann::json& json)
      : config(config_of(json)), table(table_of(config)), groups(make_cache_groups(config, table)) {}
  LayerCut cut(const RowRule& rule, int layer) const { return layer_cut(config, table, rule, layer); }
  bool resumes(const WrittenRows& written, int64_t position, const RowRule& rule) const {
    return resumable(config, table, groups, written, position, rule);
  }
  Config config;
  LayerTable table;
  CacheGroups groups;
};

TEST(LayerCut, ExactModeOfTheReleasedModel) {
  const Plan plan(flash_json());
  const int64_t n = 100000;
  const RowRule rule{RowRule::Kind::kExact, n - 1};
  EXPECT_EQ(plan.cut(rule, 19).query, 0);
  EXPECT_EQ(plan.cut(rule, 20).arrive, 0);
  EXPECT_EQ(plan.cut(rule, 20).query, n - 2414);
  EXPECT_EQ(plan.cut(rule, 20).window, n - 2541);
  EXPECT_EQ(plan.cut(rule, 39).query, n - 1);
  EXPECT_EQ(plan.cut(rule, 39).window, n - 128);
  EXPECT_EQ(plan.cut(rule, 39).arrive, n - 128);
  int64_t layer_rows = 0;
  for (int l = 20; l < 40; ++l) layer_rows += n - plan.cut(rule, l).query;
  EXPECT_EQ(layer_rows, 24150);
}

TEST(LayerCut, ExactModeOfTheDemonstrationModel) {
  const Plan plan(demonstration_json());
  const RowRule rule{RowRule::Kind::kExact, 1000};
  EXPECT_EQ(plan.cut(rule, 4).query, 1001 - 382);
  EXPECT_EQ(plan.cut(rule, 4).window, 1001 - 509);
  EXPECT_EQ(plan.cut({RowRule::Kind::kExact, 100}, 4).window, 0);
  EXPECT_EQ(plan.cut({RowRule::Kind::kEveryRow, 0}, 7).arrive, 0);
}

// Each layer receives exactly what the one before it sends, and every window row that a query reads was stored.
TEST(LayerCut, LayersFitTogether) {
  for (const auto& json : {flash_json(), demonstration_json()}) {
    const Plan plan(json);
    EXPECT_TRUE(rc::check([&] {
      const auto kind =
          *rc::gen::element(RowRule::Kind::kEveryRow, RowRule::Kind::kExact, RowRule::Kind::kBoundedReplay);
      const RowRule rule{kind, *rc::gen::inRange<int64_t>(0, 6000)};
      int64_t sent = 0;
      for (int l = 0; l < plan.table.layer_count; ++l) {
        const LayerCut cut = plan.cut(rule, l);
        RC_ASSERT(cut.arrive == sent);
        RC_ASSERT(cut.arrive <= cut.window && cut.window <= cut.query);
        RC_ASSERT(std::max(cut.visible, cut.query - (plan.config.sliding_window - 1)) >=
                  std::min(cut.window, cut.query));
        sent = cut.query;
      }
      if (kind == RowRule::Kind::kExact) RC_ASSERT(sent == rule.from);
    }));
  }
}

TEST(CacheGroups, BytesOfTheReleasedModel) {
  const Plan plan(flash_json());
  EXPECT_EQ(plan.groups.window_slots, 134);
  EXPECT_EQ(plan.groups.half_group_slots, 7);
  EXPECT_EQ(plan.groups.layout.bytes_per_sequence(), 3128352);
  EXPECT_EQ(plan.groups.layout.bytes_per_block(), 890 * 128);
  EXPECT_EQ(plan.groups.layout.lookback_tokens, 3);
}

TEST(CacheGroups, BytesOfTheDemonstrationModel) {
  const Plan plan(demonstration_json());
  EXPECT_EQ(plan.groups.layout.bytes_per_sequence(), 806944);
  EXPECT_EQ(plan.groups.layout.bytes_per_block(), 534 * 128);
}

TEST(CacheGroups, PlacesAreDistinct) {
  const Plan plan(flash_json());
  std::set<int> rings, histories;
  size_t named = 0;
  for (const LayerCache& layer : plan.groups.layers) {
    for (const int place : {layer.window, layer.half_groups}) named += place >= 0 && rings.insert(place).second ? 1 : 0;
    for (const int place : {layer.compressed, layer.index_keys})
      named += place >= 0 && histories.insert(place).second ? 1 : 0;
  }
  EXPECT_EQ(rings.size(), 43u + 3u);
  EXPECT_EQ(histories.size(), 8u);
  EXPECT_EQ(*rings.rbegin(), 45);
  EXPECT_EQ(*histories.rbegin(), 7);
  EXPECT_EQ(named, 54u);
}

TEST(Resumable, NextTurnOfAConversation) {
  const Plan plan(demonstration_json());
  // A prompt of 1,001 tokens, 40 generated, then a longer prompt that extends them.
  const WrittenRows written{1040, 1040, 1000};
  EXPECT_TRUE(plan.resumes(written, 1040, {RowRule::Kind::kExact, 1100}));
  EXPECT_TRUE(plan.resumes(written, 1040, {RowRule::Kind::kExact, 5000}));
  EXPECT_FALSE(plan.resumes(written, 1041, {RowRule::Kind::kExact, 5000}));
  EXPECT_FALSE(plan.resumes(written, 1040, {RowRule::Kind::kBoundedReplay, 1000}));
  EXPECT_TRUE(plan.resumes(written, 0, {RowRule::Kind::kBoundedReplay, 1000}));
  // Every row of decoder layers needs windows back to 913; the pass kept them from 873 on only in the last layer.
  EXPECT_TRUE(plan.resumes(written, 1040, {RowRule::Kind::kEveryRow, 0}));
  EXPECT_FALSE(plan.resumes({1001, 990, 1000}, 990, {RowRule::Kind::kEveryRow, 0}));
}

TEST(Resumable, RollBackOnlyAsFarAsTheRingsReach) {
  const Plan plan(demonstration_json());
  const RowRule rule{RowRule::Kind::kExact, 5000};
  for (int64_t position = 1030; position <= 1040; ++position) {
    // Windows and draft context reach back 128 of 134 slots.
    EXPECT_EQ(plan.resumes({1040, 1040, 900}, position, rule), position >= 1034) << position;
  }
  EXPECT_TRUE(plan.resumes({100, 100, 0}, 60, {RowRule::Kind::kEveryRow, 0}));   // nothing overwritten yet
  EXPECT_FALSE(plan.resumes({100, 100, 0}, 59, {RowRule::Kind::kEveryRow, 0}));  // but half a group is
}

// A snapshot inside a long prompt's pass lacks decoder windows that a shorter prompt needs.
TEST(Resumable, ShorterPromptFromInsideALongPass) {
  const Plan plan(demonstration_json());
  const WrittenRows written{900, 900, 1000};  // stopped after 900 of 1,001 tokens
  EXPECT_FALSE(plan.resumes(written, 900, {RowRule::Kind::kExact, 949}));
  EXPECT_TRUE(plan.resumes(written, 900, {RowRule::Kind::kExact, 1000}));
}

TEST(BoundedReplay, NeedsTheWindowAndTheDrafts) {
  const Plan plan(flash_json());
  EXPECT_EQ(min_replay_tokens(plan.config, plan.table), 134);
  auto j = demonstration_json();
  j["text_config"]["dspark_target_layer_ids"] = {3, 6, 7};
  const Plan split(j);
  EXPECT_EQ(min_replay_tokens(split.config, split.table), 0);
}

// Against a plain list of (sequence, position).
TEST(ActiveRows, KeepsWhatAPlainListKeeps) {
  EXPECT_TRUE(rc::check([] {
    ActiveRows rows;
    std::vector<std::pair<size_t, int64_t>> matrix;  // what row i of a matrix holds
    const auto sequences = *rc::gen::inRange<size_t>(1, 5);
    for (size_t s = 0; s < sequences; ++s) {
      const auto count = *rc::gen::inRange<int64_t>(1, 6);
      const auto position = *rc::gen::inRange<int64_t>(0, 10);
      rows.append(count, position);
      for (int64_t i = 0; i < count; ++i) matrix.emplace_back(s, position + i);
    }
    for (int round = 0; round < 3; ++round) {
      const auto from = *rc::gen::container<std::vector<int64_t>>(sequences, rc::gen::inRange<int64_t>(0, 16));
      std::vector<std::pair<size_t, int64_t>> expected;
      for (size_t s = 0; s < sequences; ++s) {
        const RowSpan& span = rows.spans()[s];
        for (int64_t i = 0; i < span.rows; ++i) {
          if (span.position + i >= from[s]) expected.emplace_back(s, span.position + i);
        }
      }
      const auto moves = rows.keep([&](size_t s) { return from[s]; });
      const auto begin = static_cast<size_t>(rows.begin());
      const auto old = matrix;
      for (size_t i = 0; i < moves.size(); ++i) {
        RC_ASSERT(static_cast<size_t>(moves[i]) >= i);
        if (i > 0) RC_ASSERT(moves[i] > moves[i - 1]);
        matrix[begin + i] = old[begin + static_cast<size_t>(moves[i])];
      }
      RC_ASSERT(rows.count() == static_cast<int64_t>(expected.size()));
      for (size_t s = 0; s < sequences; ++s) {
        const RowSpan& span = rows.spans()[s];
        for (int64_t i = 0; i < span.rows; ++i) {
          const auto at = static_cast<size_t>(span.first_row + i);
          RC_ASSERT(at >= begin && at < begin + expected.size());
          RC_ASSERT(matrix[at] == expected[at - begin]);
          RC_ASSERT(matrix[at] == std::make_pair(s, span.position + i));
        }
      }
    }
  }));
}

}  // namespace
}  // namespace deepinfer::deepseek_v41
