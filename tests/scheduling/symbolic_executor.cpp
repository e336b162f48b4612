#include "scheduling/symbolic_executor.h"

#include <algorithm>

#include "base/check.h"
#include "scheduling/fake_model.h"

namespace deepinfer::testing {

bool WindowRule::usable(const SnapshotInfo& snapshot, int64_t logits_from) const {
  const int64_t late = first_late_row(logits_from);
  if (snapshot.position <= late) return true;  // no late row below it is read
  return snapshot.kind == SnapshotKind::kFull && std::max(late, snapshot.position - kWindow) >= snapshot.exact_from;
}

SymbolicExecutor::SymbolicExecutor(const ExecutorConfig& config, uint64_t seed)
    : config_(config),
      random_(seed),
      ring_(kWindow + config.cache.tokens_per_block + config.plans_in_flight * (1 + config.most_drafts)),
      blocks_(static_cast<size_t>(config.cache.blocks)),
      slots_(static_cast<size_t>(config.cache.state_slots)),
      users_(static_cast<size_t>(config.cache.blocks)),
      slot_user_(static_cast<size_t>(config.cache.state_slots)) {
  for (Block& block : blocks_) block.records.resize(static_cast<size_t>(config.cache.tokens_per_block));
  for (StateSlot& slot : slots_) {
    slot.early.resize(static_cast<size_t>(ring_));
    slot.late.resize(static_cast<size_t>(ring_));
  }
}

void SymbolicExecutor::add_request(const Request& request) {
  Sequence sequence;
  sequence.request = request;
  sequence.tokens = request.prompt;
  uint64_t record = first_record(request.salt);
  for (const int32_t token : request.prompt) sequence.records.push_back(record = next_record(record, token));
  DI_CHECK(sequences_.emplace(request.id, std::move(sequence)).second, "an id is used once");
}

void SymbolicExecutor::forget_request(RequestId id) {
  if (tables_.contains(id)) {
    sequences_.at(id).forgotten = true;
  } else {
    sequences_.erase(id);
  }
}

SymbolicExecutor::Sequence& SymbolicExecutor::admitted(RequestId id) {
  Sequence& sequence = sequences_.at(id);
  DI_CHECK(sequence.admitted, "a plan names admitted sequences");
  return sequence;
}

void SymbolicExecutor::use(BlockId block) {
  used_blocks_ += users_[static_cast<size_t>(block)]++ == 0;
}
void SymbolicExecutor::stop_using(BlockId block) {
  DI_CHECK(users_[static_cast<size_t>(block)] > 0, "a block is given back once");
  used_blocks_ -= --users_[static_cast<size_t>(block)] == 0;
}

void SymbolicExecutor::fill(std::span<const BlockId> blocks, std::span<const Block> content) {
  DI_CHECK(blocks.size() == content.size(), "content for each block");
  ++snapshots_;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto block = static_cast<size_t>(blocks[i]);
    DI_CHECK(users_[block] == 0, "a block to be filled is used by nothing");
    blocks_[block] = content[i];
    if (content[i].snapshot != 0) blocks_[block].snapshot = snapshots_;
  }
}

void SymbolicExecutor::issue(const StepPlan& plan) {
  const auto use_new = [&](BlockId block) {
    DI_CHECK(users_[static_cast<size_t>(block)] == 0, "a block to be written is used by nothing else");
    use(block);
  };
  const auto save_places = [&](const std::vector<SnapshotCopy>& copies) {
    for (const SnapshotCopy& copy : copies)
      for (const BlockId block : plan.blocks(copy.blocks)) use_new(block);
  };
  // As they run: a snapshot that is saved before everything else may be read by an admission of the same plan.
  save_places(plan.saves_before);
  // Restores before the rest: what is read must not be given to anybody by this plan.
  for (const Admission& admission : plan.admissions) {
    if (admission.restores)
      for (const BlockId block : plan.blocks(admission.restore.blocks)) use(block);
    const auto table = plan.blocks(admission.blocks);
    const auto shared = static_cast<size_t>(admission.position / config_.cache.tokens_per_block);
    for (const BlockId block : table.first(shared)) use(block);
  }
  for (const Admission& admission : plan.admissions) {
    const auto table = plan.blocks(admission.blocks);
    const auto shared = static_cast<size_t>(admission.position / config_.cache.tokens_per_block);
    for (const BlockId block : table.subspan(shared)) use_new(block);
    DI_CHECK(tables_.emplace(admission.request, std::vector<BlockId>(table.begin(), table.end())).second,
             "a sequence is admitted when it is not there");
    RequestId& user = slot_user_[static_cast<size_t>(admission.state_slot)];
    DI_CHECK(user == 0, "a state slot has one sequence");
    user = admission.request;
  }
  for (const BlockGrowth& growth : plan.growths)
    for (const BlockId block : plan.blocks(growth.blocks)) {
      use_new(block);
      tables_.at(growth.request).push_back(block);
    }
  save_places(plan.saves_after);
  plans_.push_back(plan);
}

void SymbolicExecutor::answer(StepResult& result) {
  const StepPlan plan = std::move(plans_.front());
  plans_.pop_front();
  result.clear();
  result.plan = plan.number;
  result.duration = config_.fixed;
  for (const SnapshotCopy& copy : plan.saves_before) save(plan, copy);
  for (const Admission& admission : plan.admissions) admit(plan, admission);
  for (const BlockGrowth& growth : plan.growths) {
    const auto more = plan.blocks(growth.blocks);
    auto& table = admitted(growth.request).table;
    table.insert(table.end(), more.begin(), more.end());
  }

  const auto run = [&](Sequence& sequence, int64_t position, int32_t token) {
    result.duration += config_.row + config_.position_row * position;
    return run_row(sequence, position, token);
  };
  const auto report = [&](const Sequence& sequence, SequenceResult of) {
    of.request = sequence.request.id;
    of.exact_from = sequence.exact_from;
    result.sequences.push_back(of);
  };
  for (const PrefillChunk& chunk : plan.prefills) {
    Sequence& sequence = admitted(chunk.request);
    SequenceResult of;
    of.first_token = static_cast<int64_t>(result.tokens.size());
    if (!sequence.ended && !fails(sequence, of)) {
      DI_CHECK(chunk.position == sequence.written && chunk.rows > 0, "chunks follow each other");
      DI_CHECK(chunk.last == (chunk.position + chunk.rows == sequence.known), "the last chunk says so");
      check_prefix(sequence, chunk.position);
      uint64_t record = 0;
      for (int64_t p = chunk.position; p < chunk.position + chunk.rows; ++p)
        record = run(sequence, p, sequence.tokens[static_cast<size_t>(p)]);
      sequence.written = chunk.position + chunk.rows;
      if (chunk.last) {
        DI_CHECK(sequence.known == static_cast<int64_t>(sequence.tokens.size()), "nothing was decided before");
        decide(sequence, next_token(record, config_.stop_interval), of, result);
      }
    }
    report(sequence, of);
  }
  for (const DecodeRows& rows : plan.decodes) {
    Sequence& sequence = admitted(rows.request);
    SequenceResult of;
    of.first_token = static_cast<int64_t>(result.tokens.size());
    if (!sequence.ended && !fails(sequence, of)) {
      const int64_t known = static_cast<int64_t>(sequence.tokens.size());
      DI_CHECK(sequence.written == known - 1, "the newest token is the one without a record");
      const int64_t drafts = std::min<int64_t>(rows.drafts, sequence.most_tokens - known - 1);
      const int64_t accepted = drafts > 0 ? static_cast<int64_t>(random_() % static_cast<uint64_t>(drafts + 1)) : 0;
      check_prefix(sequence, known - 1);
      bool goes_on = true;
      uint64_t record = run(sequence, known - 1, sequence.tokens.back());
      for (int64_t i = 0; i <= drafts; ++i) {
        const int32_t next = next_token(record, config_.stop_interval);
        if (i <= accepted && goes_on) {
          sequence.written = known + i;
          goes_on = decide(sequence, next, of, result);
        }
        // The row of the next draft runs all the same: its place is known to be wrong only afterwards.
        if (i < drafts) record = run(sequence, known + i, i < accepted ? next : next + 1);
      }
    }
    report(sequence, of);
  }
  for (const SnapshotCopy& copy : plan.saves_after) save(plan, copy);

  const auto give_back = [&](const BlockRange& range) {
    for (const BlockId block : plan.blocks(range)) stop_using(block);
  };
  for (const SnapshotCopy& copy : plan.saves_before) give_back(copy.blocks);
  for (const SnapshotCopy& copy : plan.saves_after) give_back(copy.blocks);
  for (const Admission& admission : plan.admissions)
    if (admission.restores) give_back(admission.restore.blocks);
  for (const RequestId id : plan.retirements) {
    Sequence& sequence = admitted(id);
    DI_CHECK(tables_.at(id) == sequence.table, "the table is what the plans say");
    for (const BlockId block : sequence.table) stop_using(block);
    slot_user_[static_cast<size_t>(sequence.state_slot)] = 0;
    tables_.erase(id);
    sequence.table.clear();
    sequence.admitted = false;
    if (sequence.forgotten) sequences_.erase(id);
  }
}

void SymbolicExecutor::save(const StepPlan& plan, const SnapshotCopy& copy) {
  const Sequence& sequence = admitted(copy.request);
  const bool full = copy.kind == SnapshotKind::kFull;
  const auto blocks = plan.blocks(copy.blocks);
  DI_CHECK(static_cast<int64_t>(blocks.size()) ==
               (full ? config_.cache.full_snapshot_blocks : config_.cache.early_snapshot_blocks),
           "a snapshot has its number of blocks");
  DI_CHECK(copy.position > 0 && copy.position % config_.cache.tokens_per_block == 0, "at a boundary");
  if (sequence.ended && sequence.written < copy.position) return;  // failed before it came so far: is not published
  DI_CHECK(copy.position <= sequence.written, "what is saved has been written");
  check_prefix(sequence, copy.position);

  const StateSlot& slot = slots_[static_cast<size_t>(sequence.state_slot)];
  const auto windows = [&](const std::vector<Window>& ring, int64_t from) {
    std::vector<Window> copied;
    for (int64_t p = std::max<int64_t>(from, std::max<int64_t>(0, copy.position - kWindow)); p < copy.position; ++p) {
      copied.push_back(ring[static_cast<size_t>(p % ring_)]);
      DI_CHECK(copied.back().position == p && copied.back().record == sequence.records[static_cast<size_t>(p)],
               "the ring still has the windows of the boundary");
    }
    return copied;
  };
  ++snapshots_;
  ++saves_;
  for (size_t i = 0; i < blocks.size(); ++i) {
    Block& block = blocks_[static_cast<size_t>(blocks[i])];
    std::fill(block.records.begin(), block.records.end(), 0);
    block.snapshot = snapshots_;
    block.part = static_cast<int64_t>(i);
  }
  Block& first = blocks_[static_cast<size_t>(blocks[0])];
  first.kind = copy.kind;
  first.position = copy.position;
  first.exact_from = sequence.exact_from;
  first.early = windows(slot.early, 0);
  first.late = full ? windows(slot.late, sequence.exact_from) : std::vector<Window>();
}

void SymbolicExecutor::admit(const StepPlan& plan, const Admission& admission) {
  Sequence& sequence = sequences_.at(admission.request);
  DI_CHECK(!sequence.admitted && !sequence.ended, "what is admitted is not there");
  const auto table = plan.blocks(admission.blocks);
  sequence.admitted = true;
  sequence.table.assign(table.begin(), table.end());
  sequence.state_slot = admission.state_slot;
  sequence.known = admission.known_tokens;
  sequence.most_tokens = admission.most_tokens;
  sequence.written = admission.position;
  DI_CHECK(sequence.known == static_cast<int64_t>(sequence.tokens.size()), "all that was decided is known");
  const bool first = sequence.known == static_cast<int64_t>(sequence.request.prompt.size());
  const int64_t logits_from =
      first && sequence.request.logits_from >= 0 ? sequence.request.logits_from : sequence.known - 1;
  DI_CHECK(admission.position <= logits_from, "wanted logits are computed");
  sequence.late_from = sequence.exact_from = first_late_row(logits_from);
  StateSlot& slot = slots_[static_cast<size_t>(admission.state_slot)];
  std::fill(slot.early.begin(), slot.early.end(), Window());
  std::fill(slot.late.begin(), slot.late.end(), Window());
  DI_CHECK(admission.restores == (admission.position > 0), "a start behind the first token needs a snapshot");
  if (admission.restores) restore(sequence, plan.blocks(admission.restore.blocks), admission);
}

void SymbolicExecutor::restore(Sequence& sequence, std::span<const BlockId> blocks, const Admission& admission) {
  DI_CHECK(!blocks.empty(), "a snapshot has blocks");
  const Block& first = blocks_[static_cast<size_t>(blocks[0])];
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks_[static_cast<size_t>(blocks[i])];
    DI_CHECK(block.snapshot != 0 && block.snapshot == first.snapshot && block.part == static_cast<int64_t>(i),
             "a snapshot is whole");
  }
  DI_CHECK(first.position == admission.position && first.kind == admission.restore.kind,
           "it is the one that was meant");
  DI_CHECK(first.kind == SnapshotKind::kEarly || admission.restored.exact_from >= first.exact_from,
           "it claims no rows that it has not");
  StateSlot& slot = slots_[static_cast<size_t>(sequence.state_slot)];
  for (const Window& window : first.early) slot.early[static_cast<size_t>(window.position % ring_)] = window;
  for (const Window& window : first.late) slot.late[static_cast<size_t>(window.position % ring_)] = window;
  if (sequence.late_from < admission.position) sequence.exact_from = first.exact_from;  // its windows go on from there
  ++restores_;
  early_restores_ += first.kind == SnapshotKind::kEarly;
}

void SymbolicExecutor::check_prefix(const Sequence& sequence, int64_t tokens) const {
  const int64_t per_block = config_.cache.tokens_per_block;
  DI_CHECK(static_cast<int64_t>(sequence.table.size()) * per_block >= tokens, "the prefix has blocks");
  for (int64_t p = 0; p < tokens; p += per_block) {
    const auto& records = blocks_[static_cast<size_t>(sequence.table[static_cast<size_t>(p / per_block)])].records;
    const int64_t count = std::min(per_block, tokens - p);
    DI_CHECK(std::equal(records.begin(), records.begin() + count, sequence.records.begin() + p),
             "the records are those of the sequence's own prefix");
  }
}

uint64_t SymbolicExecutor::run_row(Sequence& sequence, int64_t position, int32_t token) {
  const int64_t per_block = config_.cache.tokens_per_block;
  const auto block_of = [&](int64_t p) -> Block& {
    DI_CHECK(p / per_block < static_cast<int64_t>(sequence.table.size()), "every row has a block");
    return blocks_[static_cast<size_t>(sequence.table[static_cast<size_t>(p / per_block)])];
  };
  const auto at = [&](int64_t p) -> uint64_t& { return block_of(p).records[static_cast<size_t>(p % per_block)]; };
  StateSlot& slot = slots_[static_cast<size_t>(sequence.state_slot)];
  const auto read = [&](const std::vector<Window>& ring, int64_t from) {
    for (int64_t p = std::max(from, position - kWindow); p < position; ++p) {
      const Window& window = ring[static_cast<size_t>(p % ring_)];
      DI_CHECK(window.position == p && window.record == at(p), "a window row is the one of its prefix");
    }
  };
  read(slot.early, 0);
  const bool has_late_row = position >= sequence.late_from;
  if (has_late_row) read(slot.late, sequence.late_from);
  const uint64_t before = position == 0 ? first_record(sequence.request.salt) : at(position - 1);
  const uint64_t record = next_record(before, token);
  Block& block = block_of(position);
  if (position % per_block == 0) block.snapshot = 0;
  DI_CHECK(block.snapshot == 0, "a block of records is no part of a snapshot");
  at(position) = record;
  slot.early[static_cast<size_t>(position % ring_)] = {position, record};
  if (has_late_row) slot.late[static_cast<size_t>(position % ring_)] = {position, record};
  return record;
}

// Returns whether the sequence goes on.
bool SymbolicExecutor::decide(Sequence& sequence, int32_t token, SequenceResult& of, StepResult& result) {
  DI_CHECK(sequence.written == static_cast<int64_t>(sequence.tokens.size()), "a token comes from the newest row");
  DI_CHECK(sequence.written - 1 >= sequence.late_from, "logits come from a row with late windows");
  sequence.tokens.push_back(token);
  sequence.records.push_back(next_record(sequence.records.back(), token));
  result.tokens.push_back(token);
  ++of.tokens;
  if (token == kStopToken) of.ended = EndReason::kStop;
  if (!of.ended && static_cast<int64_t>(sequence.tokens.size()) == sequence.most_tokens) of.ended = EndReason::kLength;
  sequence.ended = of.ended.has_value();
  return !sequence.ended;
}

bool SymbolicExecutor::fails(Sequence& sequence, SequenceResult& of) {
  if (std::uniform_real_distribution<double>()(random_) >= config_.error_probability) return false;
  ++errors_;
  of.ended = EndReason::kError;
  sequence.ended = true;
  return true;
}

}  // namespace deepinfer::testing
