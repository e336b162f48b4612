// TieredPrefixes: between the scheduler's block pool and the tier below it.  Copies what is published down, and brings
// back what a new request can start from before the scheduler sees the request, and what a preempted one has lost where
// that is sooner read than computed.  Owned by the engine; planner thread only, but for the tier's answers.  Where
// there is no memory for a question or a copy it is left out.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/cache_memory.h"
#include "engine/tiers/prefix_tier.h"
#include "engine/tiers/swap_cost.h"
#include "scheduling/scheduler.h"

namespace deepinfer {

class TieredPrefixes final : public CacheTier {
 public:
  struct Options {
    Time patience{0};               // a question that takes longer is given up
    int64_t most_queued_bytes = 0;  // copies on their way down
  };
  // Of a full snapshot and a block in a store.
  static int64_t record_bytes(const CacheLayout& layout);

  // Scheduler, memory and rule outlive it.  wake is called when there is an answer to take, on another thread.
  TieredPrefixes(Scheduler& scheduler, CacheMemory& memory, std::unique_ptr<KvStore> store, const SnapshotRule& rule,
                 const Options& options, std::function<void()> wake);
  ~TieredPrefixes() override;

  // Whether the request shall wait because the tier may have more of its prompt than the pool.
  bool ask(const Request& request, Time now);
  // A request that does not wait any more: its part of the prompt that came from the tier lies in [from, to).
  struct Ready {
    RequestId request = 0;
    int64_t from = 0, to = 0;
  };
  // Takes answers into the pool and says whose wait is over.
  void take_ready(Time now, std::vector<Ready>& out);
  void forget(RequestId request) override { waiting_.erase(request); }
  // When take_ready() must be called without a wake.
  Time next_deadline() const;

  void published(uint64_t salt, std::span<const int32_t> tokens, std::span<const BlockId> blocks,
                 const SnapshotInfo& info, std::span<const BlockId> snapshot_blocks) override;

  bool bring_back(const LostPrefix& lost, Time now) override;
  // A step was run.
  void step_done(int64_t prefill_rows, int64_t decode_rows, Time duration) {
    cost_.observe_step(prefill_rows, decode_rows, duration);
  }

  PrefixTierStats stats() const { return tier_->stats(); }

 private:
  struct Wait {
    Time asked{0}, until{0};
    int64_t cached = 0;  // tokens in the pool when the question was put
  };
  struct HashOf {
    size_t operator()(const ChainKey& key) const { return key.low; }
  };
  bool ask(PrefixQuestion question, std::span<const int32_t> tokens, Time now, Time deadline);
  void keep(uint64_t salt, std::span<const int32_t> tokens, std::span<const BlockId> blocks, const SnapshotInfo& info,
            std::span<const BlockId> snapshot_blocks);
  bool adopt(const PrefixAnswer& answer);

  Scheduler& scheduler_;
  CacheMemory& memory_;
  const SnapshotRule& rule_;
  const Options options_;
  PrefixGeometry geometry_;

  std::unordered_map<RequestId, Wait> waiting_;
  std::unordered_set<RequestId> overdue_;  // questions given up and not yet answered: a store that hangs is not asked
  std::unordered_set<ChainKey, HashOf> kept_;  // blocks that went down or came up since the store last evicted
  int64_t evictions_ = 0;
  size_t unanswered_ = 0;            // questions whose answer was not taken, whoever still waits for it
  std::vector<PrefixAnswer> taken_;  // being looked at; as much room as answers_
  SwapCost cost_;

  std::mutex mutex_;
  std::vector<PrefixAnswer> answers_;  // has room for those of all questions
  std::unique_ptr<PrefixTier> tier_;   // its thread ends before what it writes to
};

}  // namespace deepinfer
