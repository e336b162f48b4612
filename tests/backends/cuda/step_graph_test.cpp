// Steps that run as graphs have the bits of steps that run kernel by kernel, on every CUDA path of this machine's GPU
// and under emulation; and a decode step changes next to nothing of the graph of the one before.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/any_ops.h"
#include "backends/cuda_backends.h"
#include "models/model_run.h"
#include "models/synthetic_model.h"

namespace deepinfer {
namespace {

using cuda::LaunchCounts;

constexpr int kSequences = 3;
constexpr int32_t kTokens = 50;  // of the synthetic vocabulary

OpsBackend on_path(const std::string& path, bool use_graphs) {
  return {"cuda_" + path, [path, use_graphs] {
            Result<std::unique_ptr<Ops>> ops = make_cuda_ops(path, use_graphs);
            DI_CHECK(ops.ok(), ops.status().message());
            return std::move(ops).value();
          }};
}

// A model and a few sequences of it.
class Runs {
 public:
  Runs(const OpsBackend& backend, const TemporaryFolder& folder)
      : loaded_(backend, {.rows = 160, .sequences = kSequences, .logit_rows = 64, .max_context = 512}, folder.path()) {
    for (int s = 0; s < kSequences; ++s) sequences_.emplace_back(loaded_);
  }
  SequenceRun& sequence(int s) { return sequences_[static_cast<size_t>(s)]; }
  LaunchCounts counts() { return static_cast<cuda::AnyOps&>(loaded_.ops()).launch_counts(); }

  // rows[s] new tokens of each sequence in one step; the logits of each sequence's last.
  Logits step(const std::vector<std::vector<int32_t>>& rows) {
    std::vector<StepSequence> step;
    for (int s = 0; s < kSequences; ++s) {
      const std::vector<int32_t>& tokens = rows[static_cast<size_t>(s)];
      if (tokens.empty()) continue;
      const int64_t end = sequence(s).processed() + static_cast<int64_t>(tokens.size());
      step.push_back(sequence(s).part(tokens, end - 1));
    }
    return read_rows(loaded_.memory(), loaded_.model().forward(step));
  }
  // Drafted tokens and what they were drawn from.
  Logits draft(int32_t token, int drafts) {
    std::vector<DraftSequence> sequences;
    for (int s = 0; s < kSequences; ++s)
      if (sequence(s).processed() > 0) sequences.push_back(sequence(s).draft_part(token, drafts));
    const DraftResult result = loaded_.model().draft(sequences);
    Logits logits = read_rows(loaded_.memory(), result.logits);
    for (int64_t s = 0; s < result.tokens.rows; ++s)
      logits.push_back({result.tokens.row(s), result.tokens.row(s) + result.tokens.columns});
    return logits;
  }

 private:
  LoadedModel loaded_;
  std::vector<SequenceRun> sequences_;
};

bool same_bits(const Logits& a, const Logits& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
  });
}

class StepGraph : public testing::TestWithParam<std::string> {
 protected:
  StepGraph() { write_synthetic_model(folder_, synthetic_config(nlohmann::json::object()), 5); }
  std::vector<int32_t> tokens(int64_t count) {
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    for (int32_t& token : tokens) token = static_cast<int32_t>(random_() % kTokens);
    return tokens;
  }
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  TemporaryFolder folder_;
  std::mt19937 random_{20};
};

// Mostly decode steps, with prompts, drafts, pauses and rejected rows in between.
TEST_P(StepGraph, RandomStepsHaveTheBitsOfSingleKernels) {
  Runs graphs(on_path(GetParam(), true), folder_), kernels(on_path(GetParam(), false), folder_);
  for (int i = 0; i < 40; ++i) {
    const int kind = below(10);
    std::vector<std::vector<int32_t>> rows(kSequences);
    for (int s = 0; s < kSequences; ++s) {
      if (graphs.sequence(s).processed() > 150) {
        graphs.sequence(s).truncate(100);
        kernels.sequence(s).truncate(100);
      }
      if (kind == 0 && below(2) == 0) {
        rows[static_cast<size_t>(s)] = tokens(1 + below(20));
      } else if (kind > 1 || below(2) == 0 || s == 0) {
        rows[static_cast<size_t>(s)] = tokens(kind == 2 ? 1 + below(4) : 1);
      }
    }
    if (std::all_of(rows.begin(), rows.end(), [](const auto& list) { return list.empty(); })) continue;
    ASSERT_TRUE(same_bits(graphs.step(rows), kernels.step(rows))) << "step " << i;
    if (below(4) > 0) continue;
    const int drafts = 1 + below(3);
    ASSERT_TRUE(same_bits(graphs.draft(7, drafts), kernels.draft(7, drafts))) << "draft " << i;
    for (int s = 0; s < kSequences; ++s) {
      const int64_t back = below(3), length = graphs.sequence(s).processed();
      if (length <= 20) continue;
      graphs.sequence(s).truncate(length - back);
      kernels.sequence(s).truncate(length - back);
    }
  }
  const LaunchCounts counts = graphs.counts();
  EXPECT_GT(counts.graphs, 10);
  EXPECT_EQ(kernels.counts().graphs, 0);
  RecordProperty("graphs", static_cast<int>(counts.graphs));
}

TEST_P(StepGraph, DecodeChangesFewNodes) {
  Runs runs(on_path(GetParam(), true), folder_);
  runs.step({tokens(40), tokens(41), tokens(50)});
  const auto decode = [&](int steps) {
    for (int i = 0; i < steps; ++i) runs.step({tokens(1), tokens(1), tokens(1)});
  };
  decode(8);  // graphs for every number of completed groups
  const LaunchCounts before = runs.counts();
  decode(16);
  const LaunchCounts after = runs.counts();
  EXPECT_EQ(after.made, before.made);
  EXPECT_LE(after.graphs - before.graphs, 16 * 3);  // a step goes to the device in parts
  EXPECT_LE((after.changed - before.changed) * 20, after.in_graphs - before.in_graphs);
  EXPECT_EQ(after.one_by_one, before.one_by_one);
  RecordProperty("changed", static_cast<int>(after.changed - before.changed));
  RecordProperty("nodes", static_cast<int>(after.in_graphs - before.in_graphs));
}

std::vector<std::string> paths() {
  std::vector<std::string> names;
  for (const char* path : {"any", "sm90"})
    if (make_cuda_ops(path).ok()) names.emplace_back(path);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Cuda, StepGraph, testing::ValuesIn(paths()), [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StepGraph);

TEST(StepGraphs, HasAGpu) {
  expect_gpu_or_skip();
}

}  // namespace
}  // namespace deepinfer
