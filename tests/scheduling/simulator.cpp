// What is checked (the numbers are those of the list of invariants that the project keeps for its simulations):
//  (1) each token is the one that the request alone would get: followed here token by token from its prompt;
//  (2) blocks: those that plans, tables and copies use are those that the scheduler says it holds;
//  (3) nothing unwritten or foreign is read: by the executor;
//  (4) while work exists a plan comes, and within some steps a row of it makes progress;
//  (5) every accepted request ends exactly once, (10) and gets no token after its end;
//  (6) at the end all counters are zero, (7) nothing is kept of requests that are done;
//  (8) the same seed gives the same trace: by the test;
// and that a step has no more rows than it may, and that a request ends for the reason that the simulation gave it.
#include "scheduling/simulator.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "base/check.h"
#include "base/function_ref.h"
#include "scheduling/fake_model.h"
#include "scheduling/scheduler.h"
#include "scheduling/simulated_tier.h"
#include "scheduling/symbolic_executor.h"

namespace deepinfer::testing {
namespace {

uint64_t running_seed = 0;
int64_t running_step = 0;

extern "C" void name_the_run(int) {
  fmt::print(stderr,
             "simulation of seed {0} failed at step {1}; replay:\n"
             "DEEPINFER_SIMULATOR_SEED={0} ctest --test-dir build -R scheduling_simulator_test -V\n",
             running_seed, running_step);
}

// One bit of difference between blocks, no more: nearly every block of a position collides.
ChainKey weak_chain_hash(ChainKey parent, std::span<const int32_t> tokens) {
  return {parent.low & 1, static_cast<uint64_t>(tokens[0]) & 1};
}

class Simulation {
 public:
  explicit Simulation(uint64_t seed);
  SimulationReport run(int64_t steps, int64_t check_every);

 private:
  struct Live {
    Request request;  // without its prompt
    std::vector<int32_t> tokens;
    int64_t prompt_tokens = 0;
    uint64_t record = 0;
    bool cancelled = false, failed = false;
  };

  uint64_t below(uint64_t n) { return random_() % n; }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below(static_cast<uint64_t>(high - low + 1)));
  }
  bool chance(double p) { return std::uniform_real_distribution<double>()(random_) < p; }
  void trace(uint64_t value) { report_.trace = mix(report_.trace ^ value); }

  void choose_configuration();
  std::vector<int32_t> random_tokens(int64_t count);
  std::vector<int32_t> make_prompt();
  void submit(FunctionRef<void(Request&)> change = [](Request&) {});
  void storm();
  void cancel(RequestId id);
  void disturb();
  bool plan();
  void vacate();
  void forget_prefixes();
  void check_plan(const StepPlan& plan);
  void answer();
  void take_ended();
  void check();

  std::mt19937_64 random_;
  SchedulerConfig config_;
  ExecutorConfig executor_config_;
  bool weak_hash_ = false;
  int64_t most_live_ = 0, most_prompt_ = 0, priorities_ = 0, salts_ = 0;
  std::optional<TierFaults> tier_faults_;
  double burst_probability_ = 0;
  double cancel_probability_ = 0, storm_probability_ = 0, deadline_probability_ = 0, private_probability_ = 0,
         answer_probability_ = 0;
  WindowRule rule_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<SymbolicExecutor> executor_;
  std::unique_ptr<SimulatedTier> tier_;  // null: there is none

  std::map<RequestId, Live> live_;
  std::vector<std::vector<int32_t>> conversations_;  // prompt and answer of requests that ended
  RequestId last_id_ = 0;
  Time now_{0};
  int64_t steps_without_progress_ = 0;
  StepPlan plan_;
  StepResult result_;
  std::vector<EndedRequest> ended_;
  SimulationReport report_;
};

Simulation::Simulation(uint64_t seed) : random_(mix(seed)) {
  choose_configuration();
  auto scheduler = Scheduler::create(config_, rule_, weak_hash_ ? weak_chain_hash : chain_hash);
  DI_CHECK(scheduler.ok(), scheduler.status().message());
  scheduler_ = std::move(*scheduler);
  executor_ = std::make_unique<SymbolicExecutor>(executor_config_, random_());
  if (tier_faults_) tier_ = std::make_unique<SimulatedTier>(*scheduler_, *executor_, rule_, *tier_faults_, random_());
}

void Simulation::choose_configuration() {
  CacheGeometry& cache = config_.cache;
  cache.tokens_per_block = 16;
  cache.blocks = chance(0.5) ? between(8, 60) : between(60, 300);
  cache.full_snapshot_blocks = chance(0.1) ? 0 : between(1, chance(0.2) ? 12 : 3);
  cache.early_snapshot_blocks = chance(0.3) ? 0 : between(1, 2);
  cache.early_interval = 16 * between(1, 6);
  config_.max_sequences = static_cast<int>(between(1, 24));
  cache.state_slots = config_.max_sequences + static_cast<int>(between(0, 3));
  config_.max_context = chance(0.3) ? 100 : between(200, 600);
  config_.step_rows = config_.max_sequences + between(0, 100);
  config_.plans_in_flight = static_cast<int>(between(1, 3));
  config_.decode_latency = Time(between(1, 4) * 1'000'000);
  config_.most_passes = static_cast<int>(between(0, 5));
  config_.least_chunk = between(1, 20);
  executor_config_.cache = cache;
  executor_config_.plans_in_flight = config_.plans_in_flight;
  executor_config_.stop_interval = static_cast<uint64_t>(between(5, 500));
  executor_config_.error_probability = chance(0.3) ? 0.03 : 0;
  executor_config_.position_row = Time(between(0, 100));
  weak_hash_ = chance(0.3);
  most_live_ = between(1, 80);
  most_prompt_ = chance(0.7) ? 60 : 400;
  priorities_ = chance(0.5) ? 1 : 3;
  salts_ = chance(0.5) ? 1 : 3;
  cancel_probability_ = chance(0.5) ? 0 : 0.1;
  storm_probability_ = chance(0.3) ? 0.003 : 0;
  deadline_probability_ = chance(0.3) ? 0.3 : 0;
  private_probability_ = chance(0.5) ? 0 : 0.2;
  answer_probability_ = chance(0.5) ? 0.5 : 0.95;
  burst_probability_ = chance(0.3) ? 0.003 : 0;
  if (chance(0.5)) return;
  TierFaults& faults = tier_faults_.emplace();
  if (chance(0.5)) {
    faults.lost_write = chance(0.5) ? 0.1 : 0.5;
    faults.failed_read = chance(0.5) ? 0.1 : 0.5;
    faults.declined = 0.2;
  }
  faults.write_delay = between(0, 20);
  faults.read_delay = between(0, 20);
  faults.patience = between(1, 40);
  faults.capacity = between(1, 300);
}

std::vector<int32_t> Simulation::random_tokens(int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(1 + below(1000)));
  return tokens;
}

std::vector<int32_t> Simulation::make_prompt() {
  if (conversations_.empty() || chance(0.3)) return random_tokens(between(1, most_prompt_));
  std::vector<int32_t> prompt = conversations_[below(conversations_.size())];
  if (chance(0.4)) prompt.resize(1 + below(prompt.size()));  // the same again, or another turn in its middle
  if (chance(0.8)) {
    const auto more = random_tokens(between(1, 40));
    prompt.insert(prompt.end(), more.begin(), more.end());
  }
  return prompt;
}

void Simulation::submit(FunctionRef<void(Request&)> change) {
  Live live;
  Request& request = live.request;
  request.id = ++last_id_;
  request.prompt = make_prompt();
  request.max_tokens = chance(0.1) ? int64_t{1} << 62 : between(1, chance(0.3) ? 10 : 300);
  request.drafts = static_cast<int>(between(0, executor_config_.most_drafts));
  request.priority = static_cast<int32_t>(below(static_cast<uint64_t>(priorities_)));
  request.salt = below(static_cast<uint64_t>(salts_));
  if (chance(deadline_probability_)) request.deadline = now_ + Time(between(0, 200'000'000));
  request.reuse_prefix = !chance(private_probability_);
  request.publish_prefix = !chance(private_probability_);
  if (chance(0.1)) request.logits_from = static_cast<int64_t>(below(request.prompt.size()));
  change(request);
  live.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  live.tokens = request.prompt;
  live.record = record_of(request.salt, request.prompt);

  const int64_t capacity = std::min(config_.max_context, config_.cache.blocks * config_.cache.tokens_per_block);
  const bool fits = live.prompt_tokens < capacity;
  const Status status = scheduler_->submit(request);
  DI_CHECK(status.ok() == fits, fmt::format("{} tokens of {}: {}", live.prompt_tokens, capacity, status.to_string()));
  trace(status.ok());
  if (!status.ok()) {
    ++report_.refused;
    return;
  }
  ++report_.submitted;
  executor_->add_request(request);
  request.prompt.clear();
  live_.emplace(request.id, std::move(live));
}

void Simulation::cancel(RequestId id) {
  if (const auto found = live_.find(id); found != live_.end()) found->second.cancelled = true;
  scheduler_->cancel(id);
}

// Many requests at once: urgent ones, ones that all end at the same time, or ones that are cancelled at once.
void Simulation::storm() {
  const uint64_t kind = below(3);
  const RequestId first = last_id_ + 1;
  const Time deadline = now_ + Time(between(-1, 3'000'000));
  for (int64_t left = between(10, 60); left > 0; --left)
    submit([&](Request& request) {
      if (kind == 0) request.priority = static_cast<int32_t>(100 + below(2));
      if (kind == 1) request.deadline = deadline;
    });
  if (kind == 2)
    for (RequestId id = first; id <= last_id_; ++id) cancel(id);
}

// What happens between two calls of the scheduler.
void Simulation::disturb() {
  while (static_cast<int64_t>(live_.size()) < most_live_ && chance(0.6)) submit();
  if (chance(burst_probability_)) storm();
  if (chance(cancel_probability_) && last_id_ > 0) cancel(1 + below(last_id_));  // also one that has ended
  if (chance(storm_probability_))
    for (RequestId id = 1; id <= last_id_; ++id)
      if (chance(0.8)) cancel(id);
  if (chance(0.0005)) scheduler_->clear_cache();
  if (tier_) tier_->tick();
  now_ += Time(between(0, 1'000'000));
  take_ended();
}

bool Simulation::plan() {
  if (!scheduler_->next_plan(now_, plan_)) {
    take_ended();
    return false;
  }
  take_ended();
  check_plan(plan_);
  executor_->issue(plan_);
  trace(plan_.number);
  for (const PrefillChunk& chunk : plan_.prefills) trace(chunk.request ^ (static_cast<uint64_t>(chunk.rows) << 32));
  for (const DecodeRows& rows : plan_.decodes) trace(rows.request ^ (static_cast<uint64_t>(rows.drafts) << 40));
  for (const BlockId block : plan_.block_ids) trace(static_cast<uint64_t>(block));
  return true;
}

// Everything leaves the device, as when an engine sleeps or gets other weights; what waits may end meanwhile.
void Simulation::vacate() {
  if (scheduler_->vacate(plan_)) {
    executor_->issue(plan_);
    trace(plan_.number);
    ++report_.vacated;
    answer();
  }
  const SchedulerStats stats = scheduler_->stats();
  DI_CHECK(stats.held_blocks == 0 && stats.running == 0 && stats.ending == 0, "who has left holds nothing");
  if (chance(0.5)) now_ += Time(between(0, 100'000'000));
  scheduler_->end_overdue(now_);
  take_ended();
}

// As an engine forgets between two steps: what the pool has, what the tier has, or both.
void Simulation::forget_prefixes() {
  const uint64_t what = below(3);
  if (what != 0 && tier_) {
    report_.add_tier(*tier_);
    tier_.reset();
    tier_ = std::make_unique<SimulatedTier>(*scheduler_, *executor_, rule_, *tier_faults_, random_());
  }
  if (what != 1) {
    scheduler_->clear_cache();
    for (const auto& tokens : conversations_) {
      for (uint64_t salt = 0; salt < static_cast<uint64_t>(salts_); ++salt)
        DI_CHECK(scheduler_->cached_prefix({.prompt = tokens, .salt = salt}) == 0, "what is forgotten is not found");
    }
  }
  ++report_.forgotten;
  check();
}

void Simulation::check_plan(const StepPlan& plan) {
  int64_t prefill_rows = 0, decode_rows = 0;
  for (const PrefillChunk& chunk : plan.prefills) {
    prefill_rows += chunk.rows;
    const auto live = live_.find(chunk.request);
    DI_CHECK(live != live_.end(), "rows are for those who have not ended");
    const bool publishes = live->second.request.publish_prefix && config_.cache.full_snapshot_blocks > 0;
    const bool saved = std::any_of(plan.saves_after.begin(), plan.saves_after.end(),
                                   [&](const SnapshotCopy& copy) { return copy.request == chunk.request; });
    DI_CHECK(publishes || !saved, "who publishes nothing saves nothing");
    report_.snapshots_left_out += chunk.last && publishes && !saved && live->second.prompt_tokens > 16;
  }
  for (const DecodeRows& rows : plan.decodes) {
    decode_rows += 1 + rows.drafts;
    DI_CHECK(live_.contains(rows.request), "rows are for those who have not ended");
    DI_CHECK(rows.drafts <= live_.at(rows.request).request.drafts, "no more drafts than asked for");
  }
  DI_CHECK(prefill_rows == plan.prefill_rows && decode_rows == plan.decode_rows, "rows are counted");
  DI_CHECK(prefill_rows + decode_rows <= config_.step_rows, "a step has its rows at most");
  for (const Admission& admission : plan.admissions) {
    const Request& request = live_.at(admission.request).request;
    DI_CHECK(request.reuse_prefix || admission.position == 0, "who reuses nothing starts at its first token");
  }
}

void Simulation::answer() {
  executor_->answer(result_);
  const int64_t tokens_before = report_.tokens;
  int64_t next = 0;
  for (const SequenceResult& of : result_.sequences) {
    DI_CHECK(of.first_token == next, "tokens lie one after the other");
    next += of.tokens;
    const auto found = live_.find(of.request);
    if (found == live_.end()) continue;
    Live& live = found->second;
    for (int64_t i = of.first_token; i < next; ++i) {
      const int32_t token = result_.tokens[static_cast<size_t>(i)];
      DI_CHECK(token == next_token(live.record, executor_config_.stop_interval),
               "a token is that of the request alone");
      live.record = next_record(live.record, token);
      live.tokens.push_back(token);
      ++report_.tokens;
      trace(static_cast<uint64_t>(token));
    }
    live.failed |= of.ended == EndReason::kError;
  }
  scheduler_->advance(result_);
  const bool progress = report_.tokens > tokens_before || !result_.sequences.empty();
  take_ended();
  steps_without_progress_ = progress ? 0 : steps_without_progress_ + 1;
  DI_CHECK(steps_without_progress_ < 20, "something progresses");
  ++report_.steps;
  running_step = report_.steps;
}

void Simulation::take_ended() {
  scheduler_->take_ended(ended_);
  for (const EndedRequest& ended : ended_) {
    trace(ended.id ^ (static_cast<uint64_t>(ended.reason) << 48));
    const auto found = live_.find(ended.id);
    DI_CHECK(found != live_.end(), "a request ends once");
    Live& live = found->second;
    const int64_t answer = static_cast<int64_t>(live.tokens.size()) - live.prompt_tokens;
    DI_CHECK(ended.answer_tokens == answer && ended.prompt_tokens == live.prompt_tokens, "its tokens are counted");
    DI_CHECK(ended.cached_tokens < ended.prompt_tokens, "something of a prompt is always computed");
    const int64_t capacity = std::min(config_.max_context, config_.cache.blocks * config_.cache.tokens_per_block);
    const int64_t most = std::min(live.request.max_tokens, capacity - live.prompt_tokens);
    DI_CHECK(answer <= most, "no answer is longer than it may be");
    switch (ended.reason) {
      case EndReason::kStop:
        DI_CHECK(answer > 0 && live.tokens.back() == kStopToken, "it stops at a stop token");
        ++report_.stopped;
        break;
      case EndReason::kLength:
        DI_CHECK(answer == most, "it is as long as it may be");
        ++report_.full_length;
        break;
      case EndReason::kCancelled:
        DI_CHECK(live.cancelled, "somebody cancelled it");
        ++report_.cancelled;
        break;
      case EndReason::kDeadline:
        DI_CHECK(live.request.deadline <= now_, "its time has come");
        ++report_.overdue;
        break;
      case EndReason::kError:
        DI_CHECK(live.failed, "the executor said so");
        ++report_.failed;
        break;
    }
    report_.cached_tokens += ended.cached_tokens;
    report_.recomputed_tokens += ended.recomputed_tokens;
    report_.swapped_tokens += ended.swapped_tokens;
    executor_->forget_request(ended.id);
    if (conversations_.size() < 20) {
      conversations_.push_back(std::move(live.tokens));
    } else {
      conversations_[below(conversations_.size())] = std::move(live.tokens);
    }
    live_.erase(found);
  }
}

void Simulation::check() {
  const SchedulerStats stats = scheduler_->stats();
  DI_CHECK(stats.held_blocks == executor_->used_blocks(),
           fmt::format("{} blocks are held, {} are used", stats.held_blocks, executor_->used_blocks()));
  DI_CHECK(stats.held_blocks + stats.available_blocks == stats.total_blocks, "a block is held or available");
  DI_CHECK(stats.waiting + stats.running == static_cast<int64_t>(live_.size()), "the load is what is live");
  DI_CHECK(stats.submitted == stats.ended + static_cast<int64_t>(live_.size()), "every request lives or has ended");
  DI_CHECK(!tier_ || tier_->waiting() <= stats.waiting, "only those that wait wait for the tier");
  DI_CHECK(stats.running <= config_.max_sequences && stats.prefilling <= stats.running, "no more run than may");
}

SimulationReport Simulation::run(int64_t steps, int64_t check_every) {
  int64_t idle_turns = 0;
  while (report_.steps < steps || !scheduler_->idle()) {
    if (report_.steps < steps) {
      disturb();
    } else if (tier_) {
      tier_->tick();
    }
    if (executor_->in_flight() == 0 && chance(0.004)) vacate();
    if (executor_->in_flight() == 0 && chance(0.004)) forget_prefixes();
    while (executor_->in_flight() < config_.plans_in_flight && plan()) check();
    const bool stuck = executor_->in_flight() == 0 && !scheduler_->idle() && (!tier_ || tier_->waiting() == 0);
    DI_CHECK(!stuck, "while work exists there is a plan");
    if (executor_->in_flight() > 0 && (report_.steps >= steps || chance(answer_probability_))) {
      answer();
      check();
      if (report_.steps % check_every == 0) {
        scheduler_->check_integrity();
        report_.passes += scheduler_->check_part(1 + report_.steps % 37);
      }
    }
    // A run whose requests are all refused has no steps.
    if (report_.steps < steps && scheduler_->idle() && ++idle_turns > 100 * steps) break;
  }
  DI_CHECK(!scheduler_->next_plan(now_, plan_) && scheduler_->idle(), "when all have ended there is nothing to do");
  scheduler_->check_integrity();
  const SchedulerStats stats = scheduler_->stats();
  DI_CHECK(stats.waiting == 0 && stats.running == 0 && stats.prefilling == 0 && stats.ending == 0 &&
               stats.held_blocks == 0 && scheduler_->next_deadline() == kNever && executor_->sequences() == 0,
           "an idle scheduler holds nothing");
  DI_CHECK(!tier_ || tier_->waiting() == 0, "nobody waits for the tier");
  DI_CHECK(stats.swapped_tokens == report_.swapped_tokens && stats.recomputed_tokens == report_.recomputed_tokens,
           "what became of lost records is counted");
  report_.preemptions = stats.preemptions;
  if (tier_) report_.add_tier(*tier_);
  report_.hits = executor_->restores();
  report_.early_hits = executor_->early_restores();
  report_.saves = executor_->saves();
  return report_;
}

}  // namespace

void SimulationReport::add_tier(const SimulatedTier& tier) {
  tier_questions += tier.questions;
  tier_found += tier.found;
  tier_late += tier.late;
  tier_without_room += tier.without_room;
}

SimulationReport& SimulationReport::operator+=(const SimulationReport& other) {
  trace = mix(trace ^ other.trace);
  for (int64_t SimulationReport::*count : {&SimulationReport::steps,
                                           &SimulationReport::tokens,
                                           &SimulationReport::submitted,
                                           &SimulationReport::refused,
                                           &SimulationReport::stopped,
                                           &SimulationReport::full_length,
                                           &SimulationReport::cancelled,
                                           &SimulationReport::overdue,
                                           &SimulationReport::failed,
                                           &SimulationReport::preemptions,
                                           &SimulationReport::hits,
                                           &SimulationReport::early_hits,
                                           &SimulationReport::saves,
                                           &SimulationReport::cached_tokens,
                                           &SimulationReport::recomputed_tokens,
                                           &SimulationReport::swapped_tokens,
                                           &SimulationReport::tier_questions,
                                           &SimulationReport::tier_found,
                                           &SimulationReport::tier_late,
                                           &SimulationReport::tier_without_room,
                                           &SimulationReport::snapshots_left_out,
                                           &SimulationReport::vacated,
                                           &SimulationReport::forgotten,
                                           &SimulationReport::passes})
    this->*count += other.*count;
  return *this;
}

std::string SimulationReport::to_string() const {
  return fmt::format(
      "{} steps, {} tokens; {} requests, {} refused; ended: {} stop, {} length, {} cancelled, {} overdue, {} errors; "
      "{} preemptions, {} tokens recomputed, {} swapped; tier: {} questions, {} found, {} late, {} without room; {} "
      "hits ({} early), {} tokens cached, {} snapshots, {} left out; vacated {} times, forgotten {} times",
      steps, tokens, submitted, refused, stopped, full_length, cancelled, overdue, failed, preemptions,
      recomputed_tokens, swapped_tokens, tier_questions, tier_found, tier_late, tier_without_room, hits, early_hits,
      cached_tokens, saves, snapshots_left_out, vacated, forgotten);
}

SimulationReport simulate(uint64_t seed, int64_t steps, int64_t check_every) {
  running_seed = seed;
  running_step = 0;
  std::signal(SIGABRT, name_the_run);
  const SimulationReport report = Simulation(seed).run(steps, check_every);
  std::signal(SIGABRT, SIG_DFL);
  return report;
}

}  // namespace deepinfer::testing
