// SymbolicExecutor: runs the plans of a scheduler on a fake model.  Its device memory holds what a real one would, as
// symbols: in each block the records of its tokens or a part of a snapshot, in each state slot two rings of window
// rows.  It aborts when a row reads what is not of its own prefix, when a snapshot is torn or its windows have been
// overwritten, and when a plan writes where something else may still read.
//
// Windows follow the model's rule in small: early windows have all rows, late windows rows from first_late_row() on.
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <unordered_map>
#include <vector>

#include "scheduling/cache/cache_coordinator.h"
#include "scheduling/plan.h"
#include "scheduling/result.h"

namespace deepinfer::testing {

inline constexpr int64_t kWindow = 16;      // rows before a row that it reads, of either window
inline constexpr int64_t kLateMargin = 24;  // rows before the first wanted logits that late windows have

inline int64_t first_late_row(int64_t logits_from) {
  return logits_from > kLateMargin ? logits_from - kLateMargin : 0;
}

class WindowRule final : public SnapshotRule {
 public:
  bool usable(const SnapshotInfo& snapshot, int64_t logits_from) const override;
};

struct ExecutorConfig {
  CacheGeometry cache;
  int plans_in_flight = 2;
  int most_drafts = 8;
  uint64_t stop_interval = 50;
  double error_probability = 0;
  // Time of a step: fixed + rows * row + sum over rows of position * position_row.
  Time fixed{1'000'000}, row{10'000}, position_row{0};
};

class SymbolicExecutor {
 public:
  struct Window {
    int64_t position = -1;
    uint64_t record = 0;
  };
  struct Block {
    std::vector<uint64_t> records;  // [tokens_per_block]
    uint64_t snapshot = 0;          // serial of the snapshot that it is part of; 0: none
    int64_t part = 0;
    // Of part 0:
    SnapshotKind kind = SnapshotKind::kFull;
    int64_t position = 0, exact_from = 0;
    std::vector<Window> early, late;
  };

  SymbolicExecutor(const ExecutorConfig& config, uint64_t seed);

  // As the engine tells its executor.  It needs the prompt, salt, drafts and logits_from.
  void add_request(const Request& request);
  // Its answer is complete: it goes when no plan speaks of it any more.  Its rows run until then: a real executor does
  // not know either.
  void forget_request(RequestId id);
  // A plan is made: in flight until the answer.  Checks that it takes nothing that is in use.
  void issue(const StepPlan& plan);
  // Runs the oldest plan in flight and gives back what it used.
  void answer(StepResult& result);

  // For a tier below the blocks: their content, and blocks that nothing uses filled with content from there.
  const Block& block(BlockId block) const { return blocks_[static_cast<size_t>(block)]; }
  void fill(std::span<const BlockId> blocks, std::span<const Block> content);

  int64_t in_flight() const { return static_cast<int64_t>(plans_.size()); }
  int64_t used_blocks() const { return used_blocks_; }
  int64_t restores() const { return restores_; }
  int64_t early_restores() const { return early_restores_; }
  int64_t saves() const { return saves_; }
  int64_t errors() const { return errors_; }
  int64_t sequences() const { return static_cast<int64_t>(sequences_.size()); }

 private:
  struct StateSlot {
    std::vector<Window> early, late;
  };
  struct Sequence {
    Request request;
    std::vector<int32_t> tokens;    // all that are decided
    std::vector<uint64_t> records;  // of tokens, what they must be
    std::vector<BlockId> table;
    int state_slot = -1;
    int64_t written = 0;  // rows that were run
    int64_t known = 0, most_tokens = 0;
    int64_t late_from = 0, exact_from = 0;
    bool admitted = false, ended = false, forgotten = false;
  };

  Sequence& admitted(RequestId id);
  void use(BlockId block);
  void stop_using(BlockId block);
  void save(const StepPlan& plan, const SnapshotCopy& copy);
  void admit(const StepPlan& plan, const Admission& admission);
  void restore(Sequence& sequence, std::span<const BlockId> blocks, const Admission& admission);
  void check_prefix(const Sequence& sequence, int64_t tokens) const;
  uint64_t run_row(Sequence& sequence, int64_t position, int32_t token);
  bool decide(Sequence& sequence, int32_t token, SequenceResult& of, StepResult& result);
  bool fails(Sequence& sequence, SequenceResult& of);

  ExecutorConfig config_;
  std::mt19937_64 random_;
  int64_t ring_;
  std::vector<Block> blocks_;
  std::vector<StateSlot> slots_;
  std::unordered_map<RequestId, Sequence> sequences_;
  std::deque<StepPlan> plans_;  // in flight
  // As the scheduler must see it: from the making of a plan to its answer, tables to that of their retirement.
  std::vector<int> users_;
  std::vector<RequestId> slot_user_;
  std::unordered_map<RequestId, std::vector<BlockId>> tables_;
  int64_t used_blocks_ = 0;
  uint64_t snapshots_ = 0;
  int64_t restores_ = 0, early_restores_ = 0, saves_ = 0, errors_ = 0;
};

}  // namespace deepinfer::testing
