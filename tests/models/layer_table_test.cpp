// The layer table of both models, of random configurations, and the lists that it refuses.
#include "models/deepseek_v41/layer_table.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "models/test_configs.h"

namespace deepinfer::deepseek_v41 {
namespace {

TEST(LayerTable, ReleasedModel) {
  const LayerTable t = table_of(config_of(flash_json()));
  std::map<std::pair<LayerKind, int>, int> counts;
  for (int l = 0; l < 40; ++l) ++counts[{t[l].kind, t[l].ratio}];
  EXPECT_EQ((counts[{LayerKind::kWindow, 0}]), 2);
  EXPECT_EQ((counts[{LayerKind::kFull, 2}]), 3);
  EXPECT_EQ((counts[{LayerKind::kReuse, 2}]), 15);
  EXPECT_EQ((counts[{LayerKind::kFull, 1}]), 1);
  EXPECT_EQ((counts[{LayerKind::kReindex, 1}]), 4);
  EXPECT_EQ((counts[{LayerKind::kReuse, 1}]), 15);
  EXPECT_EQ(t[19].kv_source, 14);
  EXPECT_EQ(t[23].index_source, 20);
  EXPECT_EQ(t[27].index_source, 24);
  EXPECT_EQ(t[39].index_source, 36);
  EXPECT_EQ(t[39].kv_source, 20);
  EXPECT_TRUE(t[20].makes_candidates);
  for (const int l : {24, 28, 32, 36}) EXPECT_TRUE(t[l].uses_candidates && t[l].kind == LayerKind::kReindex);
  EXPECT_FALSE(t[20].uses_candidates);
  EXPECT_FALSE(t[21].uses_candidates);
  EXPECT_EQ(t[1].engram, 0);
  EXPECT_EQ(t[14].engram, 1);
  EXPECT_EQ(t[37].tap, 0);
  EXPECT_EQ(t[39].tap, 2);
  EXPECT_EQ(t.first_decoder_layer, 20);
  EXPECT_EQ(t.first_skipping_layer, 20);
  EXPECT_EQ(t.kv_sources(2), (std::vector<int>{2, 8, 14}));
  for (int l = 40; l < 43; ++l) EXPECT_EQ(t[l].kind, LayerKind::kWindow);
}

TEST(LayerTable, DemonstrationModel) {
  const LayerTable t = table_of(config_of(demonstration_json()));
  const LayerKind kinds[] = {LayerKind::kWindow, LayerKind::kWindow, LayerKind::kFull,    LayerKind::kReuse,
                             LayerKind::kFull,   LayerKind::kReuse,  LayerKind::kReindex, LayerKind::kReuse};
  for (int l = 0; l < 8; ++l) EXPECT_EQ(t[l].kind, kinds[l]) << l;
  EXPECT_EQ(t[7].kv_source, 4);
  EXPECT_EQ(t[7].index_source, 6);
  EXPECT_EQ(t.first_skipping_layer, 4);
}

// Whatever the lists are, each layer follows the definition: the largest source at or before it.
TEST(LayerTable, RandomSchedulesFollowTheDefinition) {
  EXPECT_TRUE(rc::check([] {
    Config c;
    c.num_hidden_layers = *rc::gen::inRange(1, 24);
    const int first_ratio = *rc::gen::inRange(0, c.num_hidden_layers + 1);
    const int first_decoder = *rc::gen::inRange(first_ratio, c.num_hidden_layers + 1);
    for (int l = 0; l < c.num_hidden_layers; ++l) {
      c.compress_ratios.push_back(l < first_ratio ? 0 : l < first_decoder ? 2 : 1);
      if (l < first_ratio) continue;
      const bool must = l == first_ratio || l == first_decoder;
      const bool kv = must || *rc::gen::inRange(0, 4) == 0;
      if (kv) c.kv_source_layer_ids.push_back(l);
      if (kv || *rc::gen::inRange(0, 3) == 0) c.index_source_layer_ids.push_back(l);
    }
    const auto table = make_layer_table(c);
    RC_ASSERT(table.ok());
    for (int l = 0; l < c.num_hidden_layers; ++l) {
      const LayerSpec& spec = (*table)[l];
      int kv = -1, index = -1;
      for (const int id : c.kv_source_layer_ids) kv = id <= l ? id : kv;
      for (const int id : c.index_source_layer_ids) index = id <= l ? id : index;
      if (spec.ratio == 0) {
        RC_ASSERT(spec.kind == LayerKind::kWindow && spec.kv_source == -1 && spec.index_source == -1);
        continue;
      }
      RC_ASSERT(spec.kv_source == kv);
      RC_ASSERT(spec.index_source == index);
      RC_ASSERT(spec.owns_kv() == (kv == l));
      RC_ASSERT(spec.owns_index() == (index == l));
    }
    // Rows may leave at the first ratio-1 layer exactly when it is the last KV source.
    const bool skips = first_decoder < c.num_hidden_layers && c.kv_source_layer_ids.back() == first_decoder;
    RC_ASSERT(table->first_skipping_layer == (skips ? first_decoder : c.num_hidden_layers));
  }));
}

void expect_refusal(const std::string& key, const nlohmann::json& value, const std::string& message) {
  auto j = demonstration_json();
  j["text_config"][key] = value;
  const auto table = make_layer_table(config_of(j));
  ASSERT_FALSE(table.ok()) << key;
  EXPECT_NE(table.status().message().find(message), std::string::npos) << table.status().message();
}

TEST(LayerTable, RefusesContradictions) {
  expect_refusal("kv_source_layer_ids", {0, 2, 4},
                 "kv_source_layer_ids holds layer 0, whose compress_ratios entry is 0");
  expect_refusal("index_source_layer_ids", {1, 2, 4}, "index_source_layer_ids holds layer 1");
  expect_refusal("index_source_layer_ids", {2, 6}, "index_source_layer_ids lacks layer 4 of kv_source_layer_ids");
  expect_refusal("kv_source_layer_ids", {4}, "layer 2 has ratio 2 but kv_source_layer_ids has no layer <= 2");
  expect_refusal("kv_source_layer_ids", {2}, "layer 4 has ratio 1 but its KV source, layer 2, has ratio 2");
  expect_refusal("candidate_source_layer_id", 5, "candidate_source_layer_id is 5");
  expect_refusal("candidate_source_layer_id", 2, "layer 4 would choose from the candidates of layer 2");
  expect_refusal("compress_ratios", {0, 0, 2, 2, 1, 1, 1, 1, 0, 1, 0}, "compress_ratios[9] is 1 for a draft stage");
}

TEST(LayerTable, EngramBehindTheBoundaryTurnsSkippingOff) {
  auto j = demonstration_json();
  j["text_config"]["engram_layer_ids"] = {1, 5};
  EXPECT_EQ(table_of(config_of(j)).first_skipping_layer, 8);
  j["text_config"]["engram_layer_ids"] = {1, 3};
  j["text_config"]["kv_source_layer_ids"] = {2, 4, 6};
  j["text_config"]["candidate_source_layer_id"] = 6;
  EXPECT_EQ(table_of(config_of(j)).first_skipping_layer, 8);
}

}  // namespace
}  // namespace deepinfer::deepseek_v41
