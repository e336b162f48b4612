// Rejection sampling through the executor, on a made-up target and a made-up draft of three tokens: whole answers are
// distributed as the target says, and each of them is a function of its request, however steps are cut.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <random>

#include "engine/step_executor.h"

namespace deepinfer {
namespace {

constexpr int32_t kVocabulary = 3;
constexpr int kBlock = 3;
constexpr int64_t kAnswer = 4;  // tokens
constexpr int32_t kPrompt = 1;

// The next token's logits after the last two tokens of a sequence.
std::array<float, 3> target_logits(std::span<const int32_t> tokens) {
  const int32_t last = tokens.back(), before = tokens.size() > 1 ? tokens[tokens.size() - 2] : 2;
  constexpr float kTable[3][3] = {{0.2f, 1.1f, -0.3f}, {1.4f, 0, 0.6f}, {-0.5f, 0.9f, 0.8f}};
  std::array<float, 3> z;
  for (size_t v = 0; v < z.size(); ++v) z[v] = kTable[last][v] + 0.4f * kTable[before][(v + 1) % 3];
  return z;
}

class MadeUpModel final : public Model {
 public:
  explicit MadeUpModel(Ops& ops) : ops_(ops) {
    info_.vocabulary = kVocabulary;
    info_.max_context = 64;
    info_.draft_tokens = kBlock;
    layout_.groups = {{.name = "history", .layers = {0}, .record_bytes = 8},
                      {.name = "window",
                       .retention = CacheRetention::kSlidingWindow,
                       .layers = {0},
                       .record_bytes = 8,
                       .window = 8,
                       .slots = 16}};
  }
  const ModelInfo& info() const override { return info_; }
  const CacheLayout& cache_layout() const override { return layout_; }
  bool resumable(const WrittenRows&, int64_t position, const RowRule&) const override { return position == 0; }
  int64_t draft_context_start(const RowRule&) const override { return 0; }
  Result<std::unique_ptr<PreparedWeights>> prepare_weights(const std::filesystem::path&) const override {
    return unsupported("the made-up model has no weights");
  }
  void exchange_weights(PreparedWeights&) override {}
  StepWork work(std::span<const StepSequence>) const override { return {}; }

  MatrixView<float> forward(std::span<const StepSequence> step) override {
    logits_.clear();
    for (const StepSequence& s : step) {
      for (int64_t row = 0; row < s.rows; ++row) {
        if (s.position + row < s.logits_from) continue;
        const auto z = target_logits(s.tokens.first(s.tokens.size() - static_cast<size_t>(s.rows - 1 - row)));
        logits_.insert(logits_.end(), z.begin(), z.end());
      }
    }
    return {logits_.data(), static_cast<int64_t>(logits_.size()) / kVocabulary, kVocabulary};
  }

  // Wrong in its own way for each place of the block.
  DraftResult draft(std::span<const DraftSequence> sequences) override {
    const auto rows = static_cast<int64_t>(sequences.size()) * kBlock;
    drafts_.assign(static_cast<size_t>(rows), -1);
    draft_logits_.assign(static_cast<size_t>(rows * kVocabulary), 0);
    confidence_.assign(static_cast<size_t>(rows), 0);
    for (size_t s = 0; s < sequences.size(); ++s) {
      int32_t previous = sequences[s].token;
      for (int i = 0; i < sequences[s].drafts; ++i) {
        const size_t at = s * kBlock + static_cast<size_t>(i);
        const int32_t seen[] = {previous, previous};
        auto z = target_logits(seen);
        z[static_cast<size_t>(i)] += 0.7f;
        std::copy(z.begin(), z.end(), draft_logits_.begin() + static_cast<std::ptrdiff_t>(at * kVocabulary));
        SamplingRow row = sequences[s].sampling;
        row.position = sequences[s].position + 1 + i;
        SampledRow drawn;
        ops_.sample({{draft_logits_.data() + at * kVocabulary, 1, kVocabulary}, {&row, 1}, {&drawn, 1}, {}});
        drafts_[at] = previous = drawn.token;
      }
    }
    ++calls;
    return {{drafts_.data(), std::ssize(sequences), kBlock},
            {confidence_.data(), std::ssize(sequences), kBlock},
            {draft_logits_.data(), rows, kVocabulary}};
  }

  int calls = 0;

 private:
  Ops& ops_;
  ModelInfo info_;
  CacheLayout layout_;
  std::vector<float> logits_, draft_logits_, confidence_;
  std::vector<int32_t> drafts_;
};

// How the scheduler might cut the work.
struct Schedule {
  uint64_t seed = 0;
  bool all_drafts = false;    // else 0 to kBlock a step
  int preempted_percent = 0;  // of the sequences in each step
};

std::vector<std::vector<int32_t>> answers(const std::vector<EngineRequest>& requests, const Schedule& schedule) {
  constexpr int kSlots = 50;
  const auto ops = make_reference_ops();
  MadeUpModel model(*ops);
  auto memory = CacheMemory::create(model.cache_layout(), kSlots, kSlots);
  EXPECT_TRUE(memory.ok());
  StepExecutor executor(model, *ops, *memory, DraftPlanner(DraftSchedule::kAll, StepCost()), kSlots);
  std::mt19937_64 random(schedule.seed);
  const auto chance = [&](int percent) { return static_cast<int>(random() % 100) < percent; };

  std::vector<std::vector<int32_t>> out(requests.size());
  StepPlan plan;
  StepOutcome outcome;
  for (size_t base = 0; base < requests.size(); base += kSlots) {
    struct Running {
      bool placed = false, ended = false;
    };
    std::vector<Running> running(std::min<size_t>(kSlots, requests.size() - base));
    for (size_t i = 0; i < running.size(); ++i)
      executor.add(std::make_unique<RunningSequence>(base + i, requests[base + i], model.info(), std::nullopt));
    for (;;) {
      plan.clear();
      std::vector<RequestId> rows;
      for (size_t i = 0; i < running.size(); ++i) {
        if (running[i].placed || running[i].ended) continue;
        Admission admission;
        admission.request = base + i;
        admission.state_slot = static_cast<int>(i);
        admission.known_tokens = 1 + std::ssize(out[base + i]);
        admission.most_tokens = 64;
        admission.blocks = {std::ssize(plan.block_ids), 1};
        plan.block_ids.push_back(static_cast<BlockId>(i));
        plan.admissions.push_back(admission);
        plan.prefills.push_back({.request = base + i, .rows = admission.known_tokens, .last = true});
        rows.push_back(base + i);
      }
      for (size_t i = 0; i < running.size(); ++i) {
        if (!running[i].placed || running[i].ended) continue;
        if (chance(schedule.preempted_percent)) {
          plan.retirements.push_back(base + i);
          running[i].placed = false;
          continue;
        }
        const int drafts = schedule.all_drafts ? kBlock : static_cast<int>(random() % (kBlock + 1));
        plan.decodes.push_back({.request = base + i, .drafts = drafts});
        rows.push_back(base + i);
      }
      if (plan.empty()) break;
      executor.run(plan, outcome);
      for (size_t r = 0; r < rows.size(); ++r) {
        const SequenceResult& result = outcome.result.sequences[r];
        for (int64_t t = 0; t < result.tokens; ++t)
          out[rows[r]].push_back(outcome.tokens[static_cast<size_t>(result.first_token + t)].token);
        running[rows[r] - base] = {true, result.ended.has_value()};
      }
    }
    for (size_t i = 0; i < running.size(); ++i) executor.remove(base + i);
  }
  return out;
}

struct Case {
  std::string name;
  EngineRequest request;
  // Changes the logits of the next token of an answer: penalties and masks.
  std::function<void(std::span<const int32_t> answer, std::array<float, 3>& z)> change;
};

constexpr float kNever = -INFINITY;

std::vector<Case> cases() {
  EngineRequest plain;
  plain.prompt = {kPrompt};
  plain.params.max_tokens = kAnswer;
  plain.params.draft_tokens = kBlock;
  plain.params.speculative_sampling = SpeculativeSampling::kRejection;
  std::vector<Case> all;
  all.push_back({"plain", plain, [](auto, auto&) {}});
  all.push_back({"temperature and top-k", plain,
                 [](auto, auto& z) { z[std::min_element(z.begin(), z.end()) - z.begin()] = kNever; }});
  all.back().request.params.temperature = 0.6f;
  all.back().request.params.top_k = 2;
  all.push_back({"penalties", plain, [](auto answer, auto& z) {
                   for (const int32_t token : answer) z[static_cast<size_t>(token)] -= 0.8f;
                 }});
  all.back().request.params.frequency_penalty = 0.8f;
  all.push_back({"masks that follow the answer", plain, [](auto answer, auto& z) {
                   if (!answer.empty() && answer.back() == 1) z[1] = kNever;
                   if (answer.size() < 2) z[0] = kNever;
                 }});
  all.back().request.bad_words = {{1, 1}};
  all.back().request.min_tokens = 2;
  all.back().request.params.stop_tokens = {0};
  return all;
}

// Chances of all answers, by enumeration.
void add_answers(const Case& c, std::vector<int32_t>& answer, double chance,
                 std::map<std::vector<int32_t>, double>& out) {
  const auto& params = c.request.params;
  const bool stopped = !answer.empty() && !params.stop_tokens.empty() && answer.back() == params.stop_tokens[0];
  if (stopped || std::ssize(answer) == kAnswer) {
    out[answer] = chance;
    return;
  }
  std::vector<int32_t> tokens = {kPrompt};
  tokens.insert(tokens.end(), answer.begin(), answer.end());
  auto z = target_logits(tokens);
  c.change(answer, z);
  double sum = 0;
  for (const float value : z) sum += std::exp(double{value} / double{params.temperature});
  for (int32_t v = 0; v < kVocabulary; ++v) {
    const double p = std::exp(double{z[static_cast<size_t>(v)]} / double{params.temperature}) / sum;
    if (p == 0) continue;
    answer.push_back(v);
    add_answers(c, answer, chance * p, out);
    answer.pop_back();
  }
}

std::vector<EngineRequest> with_seeds(const Case& c, int count) {
  std::vector<EngineRequest> requests(static_cast<size_t>(count), c.request);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].params.seed = i;
  return requests;
}

TEST(RejectionSampling, AnswersAreDistributedAsTheTargetSays) {
  constexpr int kRequests = 30000;
  for (const Case& c : cases()) {
    std::map<std::vector<int32_t>, double> chances;
    std::vector<int32_t> answer;
    add_answers(c, answer, 1, chances);
    std::map<std::vector<int32_t>, int64_t> seen;
    for (const auto& tokens : answers(with_seeds(c, kRequests), {.seed = 5, .preempted_percent = 10})) {
      ASSERT_TRUE(chances.contains(tokens)) << c.name << ": an answer that the target never gives";
      ++seen[tokens];
    }
    double off = 0;
    for (const auto& [tokens, chance] : chances) {
      const double expected = chance * kRequests;
      off += (static_cast<double>(seen[tokens]) - expected) * (static_cast<double>(seen[tokens]) - expected) / expected;
    }
    // Mean + 4.5 deviations of chi-square.
    const auto freedom = static_cast<double>(chances.size() - 1);
    EXPECT_LT(off, freedom + 4.5 * std::sqrt(2 * freedom)) << c.name << ", " << freedom << " degrees of freedom";
  }
}

TEST(RejectionSampling, AnAnswerDoesNotDependOnHowStepsAreCut) {
  for (const Case& c : cases()) {
    const auto requests = with_seeds(c, 400);
    const auto want = answers(requests, {.all_drafts = true});
    for (uint64_t seed = 0; seed < 4; ++seed)
      EXPECT_EQ(answers(requests, {.seed = seed, .preempted_percent = 30}), want) << c.name;
  }
}

// The drafts are a part of the answer, so the mode is not the default; a greedy answer is the same.
TEST(RejectionSampling, ChangesSampledAnswersAndNoGreedyOnes) {
  for (const float temperature : {0.0f, 1.0f}) {
    Case c = cases()[0];
    c.request.params.temperature = temperature;
    const auto tested = answers(with_seeds(c, 100), {.all_drafts = true});
    c.request.params.speculative_sampling = SpeculativeSampling::kExact;
    const auto exact = answers(with_seeds(c, 100), {.all_drafts = true});
    c.request.params.draft_tokens = 0;
    EXPECT_EQ(answers(with_seeds(c, 100), {}), exact);
    if (temperature == 0) {
      EXPECT_EQ(tested, exact);
    } else {
      EXPECT_NE(tested, exact);
    }
  }
}

}  // namespace
}  // namespace deepinfer
