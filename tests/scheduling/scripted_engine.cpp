#include "scheduling/scripted_engine.h"

#include "base/check.h"

namespace deepinfer::testing {
namespace {

ExecutorConfig matching(ExecutorConfig executor, const SchedulerConfig& config) {
  executor.cache = config.cache;
  executor.plans_in_flight = config.plans_in_flight;
  if (executor.stop_interval == ExecutorConfig().stop_interval) executor.stop_interval = uint64_t{1} << 60;
  return executor;
}

}  // namespace

SchedulerConfig ScriptedEngine::small_config() {
  SchedulerConfig config;
  config.cache = {.blocks = 64,
                  .tokens_per_block = 16,
                  .full_snapshot_blocks = 1,
                  .early_snapshot_blocks = 1,
                  .early_interval = 64,
                  .state_slots = 4};
  config.max_context = 2000;
  config.step_rows = 64;
  config.max_sequences = 4;
  return config;
}

ScriptedEngine::ScriptedEngine(const SchedulerConfig& config, ExecutorConfig executor)
    : config_(config),
      scheduler_(std::move(Scheduler::create(config, rule_)).value()),
      executor_(matching(executor, config), 1) {}

Request ScriptedEngine::request(RequestId id, int64_t prompt_tokens, int64_t max_tokens) {
  Request request;
  request.id = id;
  request.max_tokens = max_tokens;
  for (int64_t i = 0; i < prompt_tokens; ++i)
    request.prompt.push_back(static_cast<int32_t>(1 + (i * 7 + static_cast<int64_t>(id) * 131) % 1000));
  return request;
}

Status ScriptedEngine::submit(const Request& request) {
  Status status = scheduler_->submit(request);
  if (status.ok()) {
    executor_.add_request(request);
    tokens_[request.id] = request.prompt;
  }
  return status;
}

void ScriptedEngine::cancel(RequestId id) {
  scheduler_->cancel(id);
  take_ended();
}

bool ScriptedEngine::make_plan() {
  const bool made = scheduler_->next_plan(now, plan);
  take_ended();
  if (made) {
    executor_.issue(plan);
    plans.push_back(plan);
    for (const Admission& admission : plan.admissions) admitted.push_back(admission.request);
  }
  if (checks) scheduler_->check_integrity();
  return made;
}

void ScriptedEngine::answer() {
  executor_.answer(result);
  now += result.duration;
  for (const SequenceResult& of : result.sequences) {
    if (has_ended(of.request)) continue;
    const auto first = result.tokens.begin() + static_cast<std::ptrdiff_t>(of.first_token);
    auto& tokens = tokens_.at(of.request);
    tokens.insert(tokens.end(), first, first + static_cast<std::ptrdiff_t>(of.tokens));
  }
  scheduler_->advance(result);
  take_ended();
  if (checks) scheduler_->check_integrity();
}

void ScriptedEngine::step() {
  while (executor_.in_flight() < config_.plans_in_flight && make_plan()) {
  }
  if (executor_.in_flight() > 0) answer();
}

void ScriptedEngine::run(int64_t steps) {
  for (int64_t i = 0; i < steps; ++i) step();
}

void ScriptedEngine::run_to_the_end() {
  for (int64_t i = 0; !scheduler_->idle(); ++i) {
    DI_CHECK(i < 1'000'000, "the work comes to an end");
    step();
  }
  DI_CHECK(scheduler_->stats().held_blocks == 0, "all blocks are back");
}

void ScriptedEngine::run_until_ended(RequestId id) {
  for (int64_t i = 0; !has_ended(id); ++i) {
    DI_CHECK(i < 1'000'000, "the request comes to an end");
    step();
  }
}

void ScriptedEngine::take_ended() {
  std::vector<EndedRequest> news;
  scheduler_->take_ended(news);
  for (const EndedRequest& request : news) {
    DI_CHECK(ended.emplace(request.id, request).second, "a request ends once");
    executor_.forget_request(request.id);
  }
}

}  // namespace deepinfer::testing
