// The arithmetic that a model says a step has, against what its operations are given: decode rows, prompts whose rows
// leave early, and several sequences in a step.
#include "models/deepseek_v41/step_work.h"

#include <gtest/gtest.h>

#include <numeric>

#include "backends/cpu_backends.h"
#include "bench/timed_ops.h"
#include "models/model_run.h"
#include "models/synthetic_model.h"

namespace deepinfer {
namespace {

// A backend whose operations are counted.
class CountedOps {
 public:
  explicit CountedOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {}
  std::unique_ptr<Ops> make() {
    auto timed = std::make_unique<bench::TimedOps>(*inner_);
    timed_ = timed.get();
    return timed;
  }
  StepWork take() {
    StepWork work;
    for (const bench::OpTime& op : timed_->times()) {
      const double operations = 2 * static_cast<double>(op.multiply_adds);
      work.total += operations;
      if (op.name == "sparse_attention" || op.name == "index_topk") work.attention += operations;
    }
    timed_->clear();
    return work;
  }

 private:
  std::unique_ptr<Ops> inner_;
  bench::TimedOps* timed_ = nullptr;
};

class Counted {
 public:
  Counted(const std::filesystem::path& folder, std::unique_ptr<Ops> ops)
      : ops_(std::move(ops)),
        loaded_({"counted", [this] { return ops_.make(); }}, {.rows = 512, .sequences = 3, .logit_rows = 512}, folder) {
  }

  LoadedModel& loaded() { return loaded_; }
  void expect_counted(std::span<const StepSequence> step, const std::string& what) {
    const StepWork said = loaded_.model().work(step);
    ops_.take();
    loaded_.model().forward(step);
    const StepWork done = ops_.take();
    EXPECT_EQ(said.total, done.total) << what;
    EXPECT_EQ(said.attention, done.attention) << what;
  }

 private:
  CountedOps ops_;
  LoadedModel loaded_;
};

std::vector<int32_t> some_tokens(int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(7 + (i * 31) % 200);
  return tokens;
}

void expect_every_step_counted(const std::filesystem::path& folder, std::unique_ptr<Ops> ops) {
  Counted counted(folder, std::move(ops));
  const auto step_of = [](SequenceRun& run, int64_t rows, int64_t logits_from) {
    StepSequence s = run.part(some_tokens(rows), logits_from);
    s.draft_context = false;  // what drafts need is not counted
    return s;
  };
  constexpr int64_t kPrompt = 150;
  for (const RowRule rule : {RowRule{}, RowRule{RowRule::Kind::kExact, kPrompt - 1}}) {
    SequenceRun run(counted.loaded(), rule);
    for (const int64_t rows : {1, 63, 86}) {
      const StepSequence s = step_of(run, rows, kPrompt - 1);
      counted.expect_counted({&s, 1}, "a prompt's " + std::to_string(rows) + " rows");
    }
    for (const int64_t rows : {1, 6, 2}) {
      const StepSequence s = step_of(run, rows, kPrompt);
      counted.expect_counted({&s, 1}, "an answer's " + std::to_string(rows) + " rows");
    }
    SequenceRun other(counted.loaded(), {RowRule::Kind::kExact, 40});
    const StepSequence both[] = {step_of(other, 41, 40), step_of(run, 3, 0)};
    counted.expect_counted(both, "two sequences");
  }
}

TEST(StepWork, IsThatOfTheDemonstrationModelsOperations) {
  expect_every_step_counted(DEEPINFER_TEST_MODEL, make_cpu_path(machine_paths().back(), 1));
}

// A candidate pool that is smaller than what is visible, and layers that rows never reach.
TEST(StepWork, IsThatOfAnotherSchedulesOperations) {
  const TemporaryFolder folder;
  write_synthetic_model(folder,
                        synthetic_config({{"num_hidden_layers", 9},
                                          {"compress_ratios", {0, 2, 2, 2, 1, 1, 1, 1, 1, 0, 0, 0}},
                                          {"kv_source_layer_ids", {1, 3, 4}},
                                          {"index_source_layer_ids", {1, 2, 3, 4, 6, 8}},
                                          {"engram_layer_ids", {0, 2}},
                                          {"dspark_target_layer_ids", {2, 5, 8}}}),
                        5);
  expect_every_step_counted(folder.path(), make_reference_ops());
}

}  // namespace
}  // namespace deepinfer
