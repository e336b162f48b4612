// Weights that make logits no numbers: an error of that request which says where, on every path of the sampler, and
// never a token; what was decided before it is delivered, and the next request knows nothing of it.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "backends/cpu_backends.h"
#include "engine/generator_suite.h"
#include "models/synthetic_model.h"
#include "tensor/checkpoint.h"

namespace deepinfer {
namespace {

const std::vector<int32_t> kPrompt{3, 40, 22, 23, 5, 8};

// A small model with random weights whose tensor rows can be overwritten with NaN.
class BrokenModel {
 public:
  BrokenModel() { write_synthetic_model(folder_, synthetic_config(nlohmann::json::object()), 11); }

  // Row `row` of a bf16 tensor; all rows: -1.
  void break_rows(const std::string& name, int64_t row) {
    const Checkpoint checkpoint = Checkpoint::open(folder_.path()).value();
    const int64_t i = checkpoint.index_of(name).value();
    const TensorInfo& info = checkpoint.info(i);
    DI_CHECK(info.dtype == DType::kBF16, "rows of bf16 are broken");
    const uint64_t rows = static_cast<uint64_t>(info.shape[0]);
    const uint64_t bytes = row < 0 ? info.end - info.begin : (info.end - info.begin) / rows;
    const uint64_t first =
        checkpoint.shard_of(i).header().data_start + info.begin + (row < 0 ? 0 : static_cast<uint64_t>(row) * bytes);
    std::fstream file(folder_ / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(first));
    for (uint64_t at = 0; at < bytes; at += 2) file.write("\xC0\x7F", 2);
    DI_CHECK(file.good(), "the weights are overwritten");
  }

  std::unique_ptr<Generator> open(const OpsBackend& backend) const {
    GeneratorOptions options;
    options.model = folder_.path();
    options.max_context = 256;
    auto generator = Generator::open(options, backend.make());
    DI_CHECK(generator.ok(), generator.status().message());
    return std::move(generator).value();
  }

 private:
  TemporaryFolder folder_;
};

std::vector<OpsBackend> backends() {
  std::vector<OpsBackend> list{{"reference", make_reference_ops}};
  for (const CpuIsa isa : machine_paths())
    list.push_back({"cpu_" + std::string(to_string(isa)), [isa] { return make_cpu_path(isa, 2); }});
  return list;
}

GenerationParams plain(int64_t most, int drafts) {
  GenerationParams params;
  params.temperature = 0;
  params.max_tokens = most;
  params.draft_tokens = drafts;
  return params;
}

struct Outcome {
  Status status;
  std::vector<int32_t> tokens;  // delivered
};

Outcome run(Generator& generator, const std::vector<int32_t>& prompt, const GenerationParams& params) {
  Outcome outcome;
  const auto result = generator.generate(prompt, params, [&](std::span<const GeneratedToken> tokens) {
    for (const GeneratedToken& token : tokens) outcome.tokens.push_back(token.token);
    return true;
  });
  outcome.status = result.status();
  return outcome;
}

TEST(BrokenWeights, NoPathDrawsFromLogitsThatAreNaN) {
  BrokenModel model;
  model.break_rows("head.weight", 77);
  for (const OpsBackend& backend : backends()) {
    const auto generator = model.open(backend);
    std::vector<GenerationParams> wishes(8, plain(4, 3));
    wishes[1].draft_tokens = 0;
    wishes[2].temperature = 1;
    wishes[3].temperature = 0.7f;
    wishes[3].top_k = 5;
    wishes[4].temperature = 1;
    wishes[4].top_p = 0.5f;
    wishes[4].min_p = 0.01f;
    wishes[5].repetition_penalty = 1.3f;
    wishes[5].frequency_penalty = 1;
    wishes[6].logit_bias = {{77, -100.0f}, {78, 100.0f}};  // a bias makes no number of it
    wishes[7].temperature = 1;
    wishes[7].logprobs = 3;
    wishes[7].raw_logprobs = true;
    for (size_t i = 0; i < wishes.size(); ++i) {
      const Outcome outcome = run(*generator, kPrompt, wishes[i]);
      EXPECT_EQ(outcome.tokens, std::vector<int32_t>{}) << backend.name << ", wish " << i;
      EXPECT_EQ(outcome.status.code(), StatusCode::kCorruptFile) << backend.name << ", wish " << i;
      EXPECT_EQ(outcome.status.message(),
                "logits are not finite at position 6: token 77 has nan; the model's weights are damaged or overflow")
          << backend.name << ", wish " << i;
    }
  }
}

// The token that the answer would hold at its 4th place makes the rows that read it no numbers.
TEST(BrokenWeights, TokensBeforeTheBrokenPositionAreDeliveredWithAndWithoutDrafts) {
  const OpsBackend reference{"reference", make_reference_ops};
  const std::vector<int32_t> whole = run(*BrokenModel().open(reference), kPrompt, plain(8, 0)).tokens;
  ASSERT_EQ(whole.size(), 8u);
  ASSERT_EQ(std::count(whole.begin(), whole.begin() + 4, whole[3]), 1) << "another seed is needed";
  BrokenModel model;
  model.break_rows("embed.weight", whole[3]);
  for (const int drafts : {0, 1, 3}) {
    const auto generator = model.open(reference);
    const Outcome outcome = run(*generator, kPrompt, plain(8, drafts));
    EXPECT_EQ(outcome.tokens, std::vector<int32_t>(whole.begin(), whole.begin() + 4)) << drafts << " drafts";
    EXPECT_EQ(outcome.status.code(), StatusCode::kCorruptFile);
    EXPECT_NE(outcome.status.message().find("position 10: token 0 has nan"), std::string::npos)
        << outcome.status.message();
    // An answer that ends before that position is whole, and a consumer that stops there sees no error.
    EXPECT_TRUE(run(*generator, kPrompt, plain(4, drafts)).status.ok());
    size_t given = 0;
    const auto stopped = generator->generate(kPrompt, plain(8, drafts), [&](std::span<const GeneratedToken> tokens) {
      given += tokens.size();
      return given < 4;
    });
    EXPECT_TRUE(stopped.ok()) << stopped.status().message();
  }
}

TEST(BrokenWeights, AnotherPromptIsAnsweredAsByAFreshGenerator) {
  BrokenModel model;
  model.break_rows("embed.weight", 9);
  for (const OpsBackend& backend : backends()) {
    const auto generator = model.open(backend);
    const auto fresh = run(*model.open(backend), kPrompt, plain(6, 3));
    std::vector<int32_t> poisoned = kPrompt;
    poisoned.insert(poisoned.begin() + 2, 9);
    run(*generator, poisoned, plain(6, 3));
    std::vector<int32_t> shared(kPrompt.begin(), kPrompt.begin() + 2);  // the part before the broken token
    run(*generator, shared, plain(6, 3));
    run(*generator, poisoned, plain(6, 3));
    const Outcome outcome = run(*generator, kPrompt, plain(6, 3));
    EXPECT_EQ(outcome.status.message(), fresh.status.message()) << backend.name;
    EXPECT_EQ(outcome.tokens, fresh.tokens) << backend.name;
  }
}

TEST(BrokenWeights, BrokenDraftsCostSpeedOnly) {
  BrokenModel model;
  for (const OpsBackend& backend : backends()) {
    const Outcome whole = run(*model.open(backend), kPrompt, plain(8, 0));
    BrokenModel broken;
    broken.break_rows("mtp.2.markov_head.head.weight", -1);
    const Outcome outcome = run(*broken.open(backend), kPrompt, plain(8, 3));
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_EQ(outcome.tokens, whole.tokens) << backend.name;
  }
}

}  // namespace
}  // namespace deepinfer
