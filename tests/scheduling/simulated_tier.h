// SimulatedTier: a tier below the block pool for simulations, on the memory of a symbolic executor.  It keeps copies of
// what is published and brings back what preempted requests have lost, or fails to: it is slow, forgets, loses writes
// and reads, answers too late, and declines.  (A store that gives back wrong bytes is a failed read here: the layer
// below the scheduler compares every record, tests/engine/tiers.)  Time is counted in ticks; nothing else is random but
// by the seed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "scheduling/cache/cache_tier.h"
#include "scheduling/scheduler.h"
#include "scheduling/symbolic_executor.h"

namespace deepinfer::testing {

struct TierFaults {
  double lost_write = 0, failed_read = 0, declined = 0;
  int64_t write_delay = 0, read_delay = 0;  // ticks, at most
  int64_t patience = 10;                    // ticks
  int64_t capacity = 100;                   // prefixes
};

class SimulatedTier final : public CacheTier {
 public:
  // All outlive it.
  SimulatedTier(Scheduler& scheduler, SymbolicExecutor& executor, const SnapshotRule& rule, const TierFaults& faults,
                uint64_t seed);
  ~SimulatedTier() override { scheduler_.set_tier(nullptr); }

  void published(uint64_t salt, std::span<const int32_t> tokens, std::span<const BlockId> blocks,
                 const SnapshotInfo& info, std::span<const BlockId> snapshot_blocks) override;
  bool bring_back(const LostPrefix& lost, Time now) override;
  void forget(RequestId request) override;

  // Answers what is due, gives up what is overdue, and sometimes brings a prefix that nobody has asked for, as for a
  // request that has not been submitted yet.
  void tick();
  int64_t waiting() const { return static_cast<int64_t>(questions_.size()); }
  bool waits(RequestId request) const { return questions_.contains(request); }

  int64_t questions = 0, found = 0, late = 0, without_room = 0;

 private:
  struct Kept {
    std::vector<int32_t> tokens;
    SnapshotInfo info;
    std::vector<SymbolicExecutor::Block> blocks;  // of the tokens, then of the snapshot
    int64_t from = 0;                             // tick
  };
  struct Question {
    uint64_t salt = 0;
    std::vector<int32_t> tokens;
    int64_t logits_from = 0, cached = 0;
    int64_t answered = 0, overdue = 0;  // ticks
    bool fails = false;
  };
  bool chance(double p) { return std::uniform_real_distribution<double>()(random_) < p; }
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  const Kept* find(const Question& question) const;
  bool adopt(uint64_t salt, const Kept& kept);

  Scheduler& scheduler_;
  SymbolicExecutor& executor_;
  const SnapshotRule& rule_;
  TierFaults faults_;
  std::mt19937_64 random_;
  int64_t now_ = 0;
  std::deque<std::pair<uint64_t, Kept>> kept_;  // by salt, the oldest first
  std::map<RequestId, Question> questions_;
};

}  // namespace deepinfer::testing
