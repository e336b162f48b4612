#include "engine/step_executor.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/caught_exception.h"
#include "base/check.h"
#include "base/topology.h"

namespace deepinfer {

namespace {

// Masks take a quarter of the cores at most, which the forward pass shares with them, and no more than pays.
int mask_threads() {
  return std::clamp(read_topology().usable_threads() / 4, 1, 4);
}

// A line of the outcome for a request's rows; what broke it, if something did.
size_t report(const RunningSequence& sequence, StepOutcome& outcome) {
  SequenceResult& result = outcome.result.sequences.emplace_back();
  StepOutcome::Detail& detail = outcome.details.emplace_back();
  result.request = sequence.id();
  if (sequence.failed()) {
    result.ended = EndReason::kError;
    detail.failure = copy_without_fail(sequence.failure());
  }
  return outcome.details.size() - 1;
}

}  // namespace

void StepOutcome::reserve(int64_t sequences) {
  result.sequences.reserve(static_cast<size_t>(sequences));
  details.reserve(static_cast<size_t>(sequences));
}

void StepOutcome::clear() {
  result.clear();
  tokens.clear();
  details.clear();
  shape = {};
}

StepExecutor::StepExecutor(Model& model, Ops& ops, CacheMemory& memory, DraftPlanner planner, int64_t step_sequences)
    : model_(model), ops_(ops), memory_(memory), planner_(std::move(planner)), mask_threads_(mask_threads()) {
  const auto most = static_cast<size_t>(step_sequences);
  draft_requests_.reserve(most);
  drafting_.reserve(most);
  draft_limits_.reserve(most);
  draft_decodes_.reserve(most);
  proposals_.reserve(most);
  step_.reserve(most);
  members_.reserve(most);
  reported_.reserve(most);
  row_counts_.reserve(most);
}

void StepExecutor::add(std::unique_ptr<RunningSequence> sequence) {
  const RequestId id = sequence->id();
  const bool added = sequences_.emplace(id, std::move(sequence)).second;
  DI_CHECK(added, "a request is added once");
}

void StepExecutor::remove(RequestId id) {
  planner_.forget(id);
  sequences_.erase(id);
}

RunningSequence& StepExecutor::sequence(RequestId id) {
  const auto found = sequences_.find(id);
  DI_CHECK(found != sequences_.end(), "a plan names known requests");
  return *found->second;
}

void StepExecutor::run(const StepPlan& plan, StepOutcome& outcome) {
  const auto start = std::chrono::steady_clock::now();
  outcome.clear();
  outcome.result.plan = plan.number;
  save(plan, plan.saves_before);
  admit(plan);
  members_.clear();
  try {
    run_rows(plan, outcome);
  } catch (...) {
    fail_rows(plan, caught_exception("a step"), outcome);
  }
  save(plan, plan.saves_after);
  retire(plan);
  outcome.result.duration = std::chrono::steady_clock::now() - start;
}

void StepExecutor::run_rows(const StepPlan& plan, StepOutcome& outcome) {
  draft(plan);
  build(plan, outcome);
  if (!step_.empty()) choose(outcome);
}

void StepExecutor::fail_rows(const StepPlan& plan, const Status& why, StepOutcome& outcome) {
  // Some may have made their choices and even ended by them: those are dropped, like all that the step did.
  for (RunningSequence* member : members_) member->fail(copy_without_fail(why));
  outcome.clear();
  outcome.result.plan = plan.number;
  const auto fail = [&](RequestId id) {
    RunningSequence& s = sequence(id);
    if (!s.ended()) s.fail(copy_without_fail(why));
    report(s, outcome);
  };
  for (const PrefillChunk& chunk : plan.prefills) fail(chunk.request);
  for (const DecodeRows& rows : plan.decodes) fail(rows.request);
}

// Of what has failed nothing is published (StepScheduler::publish).
void StepExecutor::save(const StepPlan& plan, const std::vector<SnapshotCopy>& copies) {
  for (const SnapshotCopy& copy : copies) {
    const RunningSequence& s = sequence(copy.request);
    if (!s.failed()) memory_.save(s.state_slot(), copy.position, copy.kind, plan.blocks(copy.blocks));
  }
}

void StepExecutor::admit(const StepPlan& plan) {
  const auto contained = [this](RequestId id, auto work) {
    RunningSequence& s = sequence(id);
    if (s.failed()) return;
    try {
      work(s);
    } catch (...) {
      s.fail(caught_exception("a block table"));
    }
  };
  for (const Admission& admission : plan.admissions) {
    WrittenRows written;
    if (admission.restores) {
      memory_.restore(admission.state_slot, admission.position, admission.restore.kind,
                      plan.blocks(admission.restore.blocks));
      // Of an early snapshot the skipping layers have no row.
      const bool full = admission.restored.kind == SnapshotKind::kFull;
      written = {admission.position, admission.position, full ? admission.restored.exact_from : admission.position};
    }
    contained(admission.request,
              [&](RunningSequence& s) { s.admit(admission, plan.blocks(admission.blocks), written, model_, memory_); });
  }
  for (const BlockGrowth& growth : plan.growths)
    contained(growth.request, [&](RunningSequence& s) { s.grow(plan.blocks(growth.blocks), memory_); });
}

void StepExecutor::draft(const StepPlan& plan) {
  draft_requests_.clear();
  drafting_.clear();
  draft_limits_.clear();
  draft_decodes_.clear();
  proposing_.clear();
  proposed_.clear();
  proposals_.assign(plan.decodes.size(), {});
  int64_t other_rows = plan.prefill_rows;
  for (size_t i = 0; i < plan.decodes.size(); ++i) {
    RunningSequence& s = sequence(plan.decodes[i].request);
    if (s.ended()) continue;
    const int drafts = std::min(plan.decodes[i].drafts, s.most_drafts());
    if (s.tests_drafts()) {
      // Its drafts are a part of its answer: whether they are drawn is no question of speed.
      other_rows += 1 + drafts;
      if (s.wants_proposal()) proposing_.push_back(&s);
      continue;
    }
    if (drafts == 0) continue;
    draft_requests_.push_back(s.draft_request(drafts));
    drafting_.push_back(s.id());
    draft_limits_.push_back(drafts);
    draft_decodes_.push_back(i);
  }
  keep_paying_drafts(other_rows);
  const DraftResult drafted = draw_drafts();
  if (!drafting_.empty()) planner_.choose(drafting_, drafted, drawn_, other_rows, draft_lengths_);
  for (size_t d = 0; d < drafting_.size(); ++d) {
    const int32_t* tokens = drafted.tokens.row(static_cast<int64_t>(d));
    proposals_[draft_decodes_[d]] = {static_cast<int64_t>(proposed_.size()), draft_lengths_[d]};
    proposed_.insert(proposed_.end(), tokens, tokens + draft_lengths_[d]);
  }
  for (size_t i = 0; i < plan.decodes.size(); ++i) {
    const RunningSequence& s = sequence(plan.decodes[i].request);
    if (s.ended() || !s.tests_drafts()) continue;
    const auto tokens = s.proposed();
    const auto count =
        std::min<int64_t>(std::min(plan.decodes[i].drafts, s.most_drafts()), static_cast<int64_t>(tokens.size()));
    proposals_[i] = {static_cast<int64_t>(proposed_.size()), count};
    proposed_.insert(proposed_.end(), tokens.begin(), tokens.begin() + count);
  }
}

void StepExecutor::keep_paying_drafts(int64_t other_rows) {
  if (drafting_.empty() || planner_.drafts(drafting_, draft_limits_, other_rows)) return;
  draft_requests_.clear();
  drafting_.clear();
}

DraftResult StepExecutor::draw_drafts() {
  for (const RunningSequence* s : proposing_) draft_requests_.push_back(s->draft_request(s->proposal_drafts()));
  if (draft_requests_.empty()) return {};
  const DraftResult drafted = model_.draft(draft_requests_);
  drawn_.clear();
  for (size_t d = 0; d < draft_requests_.size(); ++d) {
    const int32_t* tokens = drafted.tokens.row(static_cast<int64_t>(d));
    int drawn = 0;
    while (drawn < draft_requests_[d].drafts && tokens[drawn] >= 0) ++drawn;
    drawn_.push_back(drawn);
  }
  const size_t first = draft_requests_.size() - proposing_.size();
  for (size_t d = first; d < draft_requests_.size(); ++d) {
    const auto row = static_cast<int64_t>(d);
    const std::span<const int32_t> tokens(drafted.tokens.row(row), static_cast<size_t>(drawn_[d]));
    proposing_[d - first]->propose(tokens, drafted.logits.rows_from(row * drafted.tokens.columns, drawn_[d]),
                                   ops_.memory());
  }
  drawn_.resize(first);
  return drafted;
}

// What a sequence would draft next must not depend on whether it was preempted: who leaves takes a proposal along.
void StepExecutor::retire(const StepPlan& plan) {
  try {
    draft_requests_.clear();
    proposing_.clear();
    for (const RequestId id : plan.retirements) {
      if (RunningSequence& s = sequence(id); s.wants_proposal()) proposing_.push_back(&s);
    }
    draw_drafts();
  } catch (...) {
    const Status why = caught_exception("the drafts of a preempted request");
    for (const RequestId id : plan.retirements) {
      if (RunningSequence& s = sequence(id); s.wants_proposal()) s.fail(copy_without_fail(why));
    }
  }
  for (const RequestId id : plan.retirements) sequence(id).retire();
}

void StepExecutor::build(const StepPlan& plan, StepOutcome& outcome) {
  step_.clear();
  members_.clear();
  reported_.clear();
  const auto join = [&](RunningSequence& s, const StepSequence& rows, size_t place) {
    step_.push_back(rows);
    members_.push_back(&s);
    reported_.push_back(place);
  };
  for (const PrefillChunk& chunk : plan.prefills) {
    RunningSequence& s = sequence(chunk.request);
    const size_t place = report(s, outcome);
    if (!s.failed()) join(s, s.prefill(chunk), place);
  }
  for (size_t i = 0; i < plan.decodes.size(); ++i) {
    RunningSequence& s = sequence(plan.decodes[i].request);
    const size_t place = report(s, outcome);
    if (s.ended()) continue;
    const Proposal& proposal = proposals_[i];
    const auto drafts = std::span<const int32_t>(proposed_).subspan(static_cast<size_t>(proposal.first),
                                                                    static_cast<size_t>(proposal.count));
    outcome.details[place].decoded = true;
    outcome.details[place].drafted = proposal.count;
    join(s, s.decode(drafts), place);
  }
}

MatrixView<float> StepExecutor::forward() {
  masked_.clear();
  for (RunningSequence* member : members_) {
    if (member->masked()) masked_.push_back(member);
  }
  if (masked_.empty()) return model_.forward(step_);
  mask_threads_.start(masked_.size(), [this](size_t i) { masked_[i]->fill_masks(); });
  struct Joined {
    SideThreads& threads;
    ~Joined() { threads.wait(); }
  } const joined{mask_threads_};
  return model_.forward(step_);
}

StepShape StepExecutor::shape() const {
  StepShape shape;
  for (const StepSequence& s : step_) {
    const int64_t keys = s.position + s.rows;
    shape.rows += s.rows;
    shape.rows_times_keys += s.rows * keys;
    shape.most_keys = std::max(shape.most_keys, keys);
    shape.fewest_keys = shape.fewest_keys == 0 ? keys : std::min(shape.fewest_keys, keys);
  }
  shape.work = model_.work(step_);
  return shape;
}

void StepExecutor::choose(StepOutcome& outcome) {
  outcome.shape = shape();
  const MatrixView<float> logits = forward();
  rows_.clear();
  row_counts_.clear();
  int32_t most_logprobs = 0;
  for (RunningSequence* member : members_) {
    const size_t before = rows_.size();
    member->add_sampling(rows_);
    row_counts_.push_back(static_cast<int64_t>(rows_.size() - before));
  }
  for (const SamplingRow& row : rows_) most_logprobs = std::max(most_logprobs, row.logprobs);
  DI_CHECK(static_cast<int64_t>(rows_.size()) == logits.rows, "a row of logits for each choice");
  choices_.assign(rows_.size(), {});
  top_.resize(rows_.size() * static_cast<size_t>(most_logprobs));
  const MatrixView<TokenLogprob> top(top_.data(), most_logprobs == 0 ? 0 : logits.rows, most_logprobs);
  if (logits.rows > 0) ops_.sample({logits, rows_, choices_, top});

  int64_t row = 0;
  for (size_t i = 0; i < members_.size(); row += row_counts_[i++]) {
    const size_t tokens = outcome.tokens.size();
    try {
      take(i, row, logits, outcome);
    } catch (...) {
      members_[i]->fail(caught_exception("a choice"));
      outcome.tokens.resize(tokens);
      SequenceResult& result = outcome.result.sequences[reported_[i]];
      result.tokens = 0;
      result.ended = EndReason::kError;
      outcome.details[reported_[i]].failure = copy_without_fail(members_[i]->failure());
    }
  }
  for (const GeneratedToken& token : outcome.tokens) outcome.result.tokens.push_back(token.token);
}

void StepExecutor::take(size_t member, int64_t row, MatrixView<const float> logits, StepOutcome& outcome) {
  RunningSequence& s = *members_[member];
  SequenceResult& result = outcome.result.sequences[reported_[member]];
  StepOutcome::Detail& detail = outcome.details[reported_[member]];
  const int64_t rows = row_counts_[member];
  result.first_token = static_cast<int64_t>(outcome.tokens.size());
  const auto choices =
      std::span<const SampledRow>(choices_).subspan(static_cast<size_t>(row), static_cast<size_t>(rows));
  const auto logprobs = static_cast<int64_t>(choices_.empty() ? 0 : top_.size() / choices_.size());
  const MatrixView<const TokenLogprob> top(logprobs == 0 ? nullptr : top_.data() + row * logprobs,
                                           logprobs == 0 ? 0 : rows, logprobs);
  RunningSequence::Decided decided = s.take(choices, logits.rows_from(row, rows), top, ops_.memory(), outcome.tokens);
  if (decided.judged > 0) planner_.observe(result.request, decided.judged, decided.right);
  if (decided.tokens > 0) {
    detail.prompt_logprobs = s.take_prompt_logprobs();
    detail.choices = s.take_choices();
  }
  result.tokens = decided.tokens;
  result.ended = decided.ended;
  result.exact_from = s.progress().written().exact_from;
  result.draft_context_from = s.progress().draft_context_from();
  detail.accepted = decided.right;
  detail.failure = std::move(decided.failure);
}

}  // namespace deepinfer
