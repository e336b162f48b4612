// Metrics of an engine: fixed buckets, the text for Prometheus, the statistics line and the trace, from made-up steps.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/metrics/chrome_trace.h"
#include "engine/metrics/engine_metrics.h"
#include "engine/metrics/stats_line.h"
#include "engine/metrics/step_profile.h"
#include "engine/step_executor.h"

namespace deepinfer {
namespace {

using std::chrono::milliseconds;

TEST(Histogram, CountsByBounds) {
  static constexpr double kBounds[] = {1, 2, 4};
  Histogram histogram(kBounds);
  EXPECT_EQ(histogram.quantile(0.5), 0);
  for (const double value : {0.5, 1.0, 1.5, 4.0, 100.0}) histogram.observe(value);
  histogram.observe(3, 2);
  EXPECT_EQ(histogram.bucket(0), 2);
  EXPECT_EQ(histogram.bucket(1), 1);
  EXPECT_EQ(histogram.bucket(2), 3);
  EXPECT_EQ(histogram.bucket(3), 1);
  EXPECT_EQ(histogram.count(), 7);
  EXPECT_DOUBLE_EQ(histogram.sum(), 113);
  EXPECT_DOUBLE_EQ(histogram.quantile(2.0 / 7), 1);
  EXPECT_DOUBLE_EQ(histogram.quantile(4.5 / 7), 3);
  EXPECT_DOUBLE_EQ(histogram.quantile(1), 4);  // all that is known
}

// A step of one chunk and one decode round.
struct Step {
  StepPlan plan;
  StepOutcome outcome;
  SchedulerStats scheduler;
  StepTimes times;
};

Step make_step(uint64_t number, RequestId prompt, RequestId decoding, int64_t tokens, int64_t drafted) {
  Step step;
  step.plan.number = number;
  step.plan.prefill_rows = 100;
  step.plan.decode_rows = 1 + drafted;
  step.plan.prefills.push_back({prompt, 0, 100, true});
  step.plan.decodes.push_back({decoding, static_cast<int>(drafted)});
  SequenceResult first, second;
  first.request = prompt;
  first.tokens = 1;
  second.request = decoding;
  second.first_token = 1;
  second.tokens = tokens;
  step.outcome.result.sequences = {first, second};
  step.outcome.details.resize(2);
  step.outcome.details[1].decoded = true;
  step.outcome.details[1].drafted = drafted;
  step.outcome.details[1].accepted = tokens - 1;
  step.scheduler.running = 2;
  step.scheduler.waiting = 7;
  step.scheduler.total_blocks = 100;
  step.scheduler.held_blocks = 25;
  const Time start = milliseconds(10 * number);
  step.outcome.shape = {105, 100 * 100 + 5 * 40, 100, 40, {.attention = 2e6, .total = 5e6}};
  step.times = {start - milliseconds(1), start, start, start + milliseconds(10)};
  return step;
}

RequestSummary make_summary(EndReason reason) {
  RequestSummary summary;
  summary.reason = reason;
  summary.prompt_tokens = 100;
  summary.answer_tokens = 4;
  summary.cached_tokens = 40;
  summary.queued = milliseconds(3);
  summary.first_token = milliseconds(15);
  summary.total = milliseconds(30);
  return summary;
}

void tell(EngineObserver& observer, const Step& step) {
  observer.step_done(step.plan, step.outcome, step.scheduler, step.times);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(EngineMetrics, CountWhatStepsDid) {
  EngineMetrics metrics;
  tell(metrics, make_step(1, 1, 2, 3, 5));
  tell(metrics, make_step(2, 3, 1, 4, 4));
  EXPECT_EQ(metrics.steps.value(), 2);
  EXPECT_EQ(metrics.prefill_rows.value(), 200);
  EXPECT_EQ(metrics.decode_rows.value(), 11);
  EXPECT_EQ(metrics.answer_tokens.value(), 9);
  EXPECT_EQ(metrics.drafted.value(), 9);
  EXPECT_EQ(metrics.accepted.value(), 5);
  EXPECT_EQ(metrics.waiting.value(), 7);
  // Request 1 got its first token in step 1 and four in step 2, 10 ms later.
  EXPECT_EQ(metrics.inter_token_seconds.count(), 4);
  EXPECT_DOUBLE_EQ(metrics.inter_token_seconds.sum(), 0.010);
  metrics.request_ended(1, make_summary(EndReason::kStop), milliseconds(30));
  metrics.request_ended(2, make_summary(EndReason::kCancelled), milliseconds(30));
  // Tokens of a plan that was in flight when its request ended are no gap, now or ever.
  tell(metrics, make_step(3, 1, 2, 2, 1));
  tell(metrics, make_step(4, 5, 2, 2, 1));
  EXPECT_EQ(metrics.inter_token_seconds.count(), 4);
  EXPECT_EQ(metrics.stopped.value(), 1);
  EXPECT_EQ(metrics.cancelled.value(), 1);
  EXPECT_EQ(metrics.cached_tokens.value(), 80);
}

TEST(PrometheusText, IsAnExposition) {
  EngineMetrics metrics;
  tell(metrics, make_step(1, 1, 2, 3, 5));
  metrics.request_ended(2, make_summary(EndReason::kLength), milliseconds(30));
  const std::string text = prometheus_text(metrics, "a \"model\"\\");
  const auto lines = lines_of(text);
  std::string family;
  for (const std::string& line : lines) {
    if (line.starts_with("# HELP ")) family = line.substr(7, line.find(' ', 7) - 7);
    if (line.starts_with("#")) {
      EXPECT_EQ(line.substr(7, family.size()), family);
      continue;
    }
    EXPECT_TRUE(line.starts_with(family)) << line << " is no sample of " << family;
    EXPECT_NE(line.find("{model_name=\"a \\\"model\\\"\\\\\""), std::string::npos) << line;
    EXPECT_NO_THROW((void)std::stod(line.substr(line.rfind(' ') + 1))) << line;
  }
  for (const char* sample :
       {"vllm:num_requests_waiting{model_name=\"a \\\"model\\\"\\\\\"} 7",
        "vllm:request_success_total{model_name=\"a \\\"model\\\"\\\\\",finished_reason=\"length\"} 1",
        "deepinfer_round_tokens_bucket{model_name=\"a \\\"model\\\"\\\\\",le=\"3\"} 1",
        "deepinfer_flops_total{model_name=\"a \\\"model\\\"\\\\\",part=\"attention\"} 2000000",
        "deepinfer_flops_total{model_name=\"a \\\"model\\\"\\\\\",part=\"products\"} 3000000",
        "vllm:time_to_first_token_seconds_count{model_name=\"a \\\"model\\\"\\\\\"} 1",
        "vllm:kv_cache_usage_perc{model_name=\"a \\\"model\\\"\\\\\"} 0.25",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name=\"a \\\"model\\\"\\\\\",position=\"1\"} 1"})
    EXPECT_NE(text.find(sample), std::string::npos) << sample;
}

TEST(StatsLine, HasTheNamesOfDeepInfer) {
  std::vector<std::string> printed;
  StatsLine stats(2, {512, 4, 1e9}, [&](std::string_view line) { printed.emplace_back(line); });
  tell(stats, make_step(1, 1, 2, 3, 5));
  EXPECT_TRUE(printed.empty());
  stats.request_ended(2, make_summary(EndReason::kLength), milliseconds(20));
  tell(stats, make_step(2, 3, 1, 4, 4));
  ASSERT_EQ(printed.size(), 1u);
  size_t at = 0;
  for (const char* name : {"RANK 0",
                           "step 2",
                           "[stats] (is_prompt 1",
                           "cur_SPS 100.0",
                           "avg_SPS 100.0",
                           "cur_TPS 10450.0",
                           "prompt_TPS 10000.0",
                           "completion_TPS 450.0",
                           "avg_nextn_accept_rate 0.556",
                           "nextn_accept_rate [1.00 1.00 0.50 0.00 0.00]",
                           "verified_tokens 9",
                           "accepted_tokens 5",
                           "avg_verified_len 4.50",
                           "avg_confidence_error -",
                           "moe_lb -",
                           "running 2",
                           "pending 7",
                           "chunked 0",
                           "num_batched_tokens 105[20.5%]",
                           "KV_cache_usage 25.0%",
                           "state_cache_usage 50.0%",
                           "prefill_time 100.0%",
                           "decode_time 0.0%",
                           "prefill_caching_rate 0.400",
                           "TTFT (max 0.0150, mean 0.0150)",
                           "avg_length (input 100.0, output 4.0)",
                           "finished 1",
                           "preempted 0",
                           "aborted 0",
                           "sum_seqlen_qxk 20400",
                           "max_seqlen_k 100",
                           "min_seqlen_k 40",
                           "attn_TFLOPs 0.0002",
                           "MFU 50.00%)"}) {
    const size_t found = printed[0].find(name, at);
    ASSERT_NE(found, std::string::npos) << name << " in " << printed[0];
    at = found;
  }
}

TEST(StatsLine, HasNoUtilisationWithoutAPeak) {
  std::vector<std::string> printed;
  StatsLine stats(1, {512, 4, 0}, [&](std::string_view line) { printed.emplace_back(line); });
  tell(stats, make_step(1, 1, 2, 3, 5));
  ASSERT_EQ(printed.size(), 1u);
  EXPECT_TRUE(printed[0].ends_with("attn_TFLOPs 0.0002, MFU -)\n")) << printed[0];
}

TEST(ChromeTrace, IsJson) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "deepinfer_trace_test.json";
  auto trace = ChromeTrace::create(file);
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  tell(**trace, make_step(1, 1, 2, 3, 5));
  (*trace)->delivered(2, milliseconds(20), milliseconds(21));
  (*trace)->request_ended(2, make_summary(EndReason::kLength), milliseconds(30));
  ASSERT_TRUE((*trace)->close().ok());
  std::ifstream in(file);
  const auto events = nlohmann::json::parse(in);
  std::filesystem::remove(file);
  int spans = 0, begins = 0, ends = 0;
  for (const auto& event : events) {
    spans += event["ph"] == "X";
    begins += event["ph"] == "b";
    ends += event["ph"] == "e";
  }
  EXPECT_EQ(spans, 3);   // planned, run, delivered
  EXPECT_EQ(begins, 4);  // request, queued, prompt, answer
  EXPECT_EQ(ends, 4);
  EXPECT_EQ(ChromeTrace::create("/no/such/folder/trace.json").status().code(), StatusCode::kIoError);
}

TEST(StepProfile, RecordsTheNextSteps) {
  StepProfile profile;
  tell(profile, make_step(1, 1, 2, 3, 5));  // nobody has asked
  std::atomic<bool> recorded{false};
  auto recording = std::async(std::launch::async, [&] {
    auto result = profile.record(2, std::chrono::minutes(5), [] { return false; });
    recorded = true;
    return result;
  });
  for (uint64_t step = 2; !recorded; ++step) {
    tell(profile, make_step(step, 1, 2, 3, 5));
    profile.delivered(2, milliseconds(20), milliseconds(21));
    profile.request_ended(step, make_summary(EndReason::kLength), milliseconds(30));
  }
  const auto result = recording.get();
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->steps, 2);
  int steps = 0;
  for (const auto& event : nlohmann::json::parse(result->trace)) steps += event["ph"] == "X" && event["tid"] == 2;
  EXPECT_EQ(steps, 2);
}

TEST(StepProfile, EndsWithoutSteps) {
  StepProfile profile;
  const auto result = profile.record(5, milliseconds(1), [] { return false; });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->steps, 0);
  EXPECT_TRUE(nlohmann::json::parse(result->trace).is_array());
  EXPECT_EQ(profile.record(5, std::chrono::minutes(5), [] { return true; }).status().code(), StatusCode::kCancelled);
  for (const int64_t steps : {0, 1001})
    EXPECT_EQ(profile.record(steps, milliseconds(1), [] { return false; }).status().code(),
              StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace deepinfer
