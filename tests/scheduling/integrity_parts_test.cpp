// The check of scheduler and cache that is made a part at a time: whatever is damaged between two calls is found before
// the end of the next pass, and nothing is found where nothing is damaged (simulator.cpp and
// prefix_index_property_test.cpp run it over random schedules).
#include <gtest/gtest.h>

#include <ostream>

#include "scheduling/scripted_engine.h"
#include "scheduling/step_scheduler.h"

namespace deepinfer {

// What the classes of the cache keep, to be damaged.
struct CacheFaults {
  explicit CacheFaults(Scheduler& scheduler)
      : cache(dynamic_cast<StepScheduler&>(scheduler).cache_),
        pool(cache.pool_),
        index(cache.index_),
        tree(index.tree_),
        order(index.order_) {}

  std::vector<int32_t>& holders() { return pool.holders_; }
  std::vector<uint8_t>& cached() { return pool.cached_; }
  std::vector<BlockId>& free() { return pool.free_; }
  int64_t& idle() { return pool.idle_; }
  int64_t& nodes() { return tree.size_; }
  int32_t& children(BlockId node) { return tree.at(node).children; }
  int32_t& depth(BlockId node) { return tree.at(node).depth; }
  uint64_t& salt(BlockId node) { return tree.at(node).salt; }
  BlockId& parent(BlockId node) { return tree.at(node).parent; }
  ChainKey& key(BlockId node) { return tree.at(node).key; }
  BlockId& first_of_chain(BlockId node) { return tree.chain(tree.key(node)); }
  BlockId& next(BlockId node) { return tree.at(node).next; }
  double& first_priority() { return order.heap_.front().rank.priority; }
  std::vector<int32_t>& places() { return order.place_; }
  int64_t& position(BlockId node) { return index.at(node).info.position; }
  std::vector<BlockId>& snapshot(BlockId node) { return index.at(node).blocks; }
  std::vector<int>& free_slots() { return cache.free_slots_; }

  // The last node with a snapshot, below another node.
  BlockId leaf() {
    BlockId node = static_cast<BlockId>(pool.size()) - 1;
    while (!tree.contains(node) || !order.contains(node) || tree.parent(node) == PrefixTree::kNone) --node;
    return node;
  }
  BlockId above() { return tree.parent(leaf()); }

  CacheCoordinator& cache;
  BlockPool& pool;
  PrefixIndex& index;
  PrefixTree& tree;
  EvictionOrder& order;
};

namespace testing {
namespace {

struct Fault {
  const char* what;
  void (*make)(CacheFaults&);
  const char* found;
};
std::ostream& operator<<(std::ostream& out, const Fault& fault) {
  return out << fault.what;
}

class DamageIsFound : public ::testing::TestWithParam<Fault> {
 protected:
  DamageIsFound() {
    ::testing::FLAGS_gtest_death_test_style = "fast";
    for (RequestId id = 1; id <= 6; ++id) next_request();
  }
  // Its prompt is that of an earlier request with something more, or a new one; then the scheduler rests.
  void next_request() {
    ++id_;
    Request request = engine_.request(id_, 40, 20);
    if (id_ % 3 != 1) {
      request.prompt = engine_.tokens(id_ - 1);
      request.prompt.insert(request.prompt.end(), {static_cast<int32_t>(id_), 1, 2, 3});
    }
    ASSERT_TRUE(engine_.submit(request).ok());
    engine_.run_to_the_end();
  }
  void passes(int count, int64_t blocks) {
    while (count > 0) count -= engine_.scheduler().check_part(blocks);
  }

  ScriptedEngine engine_;
  RequestId id_ = 0;
};

TEST_P(DamageIsFound, BeforeTheEndOfTheNextPass) {
  Scheduler& scheduler = engine_.scheduler();
  for (const int64_t before : {0, 20, 64, 100}) {  // blocks of the pass under way: of the first half, of the second
    const auto damaged = [&] {
      for (int64_t i = 0; i < before; ++i) scheduler.check_part(1);
      CacheFaults faults(scheduler);
      GetParam().make(faults);
      passes(2, 7);
    };
    EXPECT_DEATH(damaged(), GetParam().found) << before << " blocks had been looked at";
  }
  passes(2, 7);
}

const Fault kFaults[] = {
    {"AnIdleBlockIsHeld", [](CacheFaults& f) { f.holders()[static_cast<size_t>(f.leaf())] = 1; }, "is held, counted 0"},
    {"NegativeHolders", [](CacheFaults& f) { f.holders()[static_cast<size_t>(f.leaf())] = -1; }, "block"},
    {"ABlockIsFreeTwice", [](CacheFaults& f) { f.free()[0] = f.free()[1]; }, "free"},
    {"AFreeBlockIsLost", [](CacheFaults& f) { f.free().pop_back(); }, "every held block|free 0, holders 0, cached 0"},
    {"AFreeBlockIsCached", [](CacheFaults& f) { f.cached()[static_cast<size_t>(f.free()[0])] = 1; },
     "free 1, holders 0, cached 1|in the index 0 times"},
    {"ANodeIsNotCached", [](CacheFaults& f) { f.cached()[static_cast<size_t>(f.leaf())] = 0; }, "cached 0"},
    {"TheIdleAreMiscounted", [](CacheFaults& f) { ++f.idle(); }, "every held block has a holder"},
    {"TheNodesAreMiscounted", [](CacheFaults& f) { ++f.nodes(); }, "nodes, counted"},
    {"ChildrenAreMiscounted", [](CacheFaults& f) { ++f.children(f.above()); }, "children, counted"},
    {"ANodeHasAnotherDepth", [](CacheFaults& f) { ++f.depth(f.leaf()); }, "node"},
    {"ANodeHasAnotherSalt", [](CacheFaults& f) { ++f.salt(f.leaf()); }, "salt of its own"},
    {"ANodeHasAnotherParent", [](CacheFaults& f) { f.parent(f.leaf()) = 1000; }, "below 1000"},
    {"ANodeHasAnotherKey", [](CacheFaults& f) { f.key(f.leaf()).low ^= 1; }, "in the table|another's chain"},
    {"AChainIsLost", [](CacheFaults& f) { f.first_of_chain(f.leaf()) = PrefixTree::kNone; }, "not in the table"},
    {"AChainIsALoop", [](CacheFaults& f) { f.next(f.leaf()) = f.leaf(); }, "a loop"},
    {"ARankIsTooHigh", [](CacheFaults& f) { f.first_priority() = 1e300; }, "goes before its parent"},
    {"APlaceIsWrong", [](CacheFaults& f) { ++f.places()[static_cast<size_t>(f.leaf())]; }, "place"},
    {"ASnapshotIsElsewhere", [](CacheFaults& f) { ++f.position(f.leaf()); }, "has a snapshot of"},
    {"ASnapshotLosesABlock", [](CacheFaults& f) { f.snapshot(f.leaf()).clear(); }, "in the index 0 times"},
    {"ASnapshotHasAnothersBlock", [](CacheFaults& f) { f.snapshot(f.leaf())[0] = f.leaf(); }, "in the index . times"},
    {"AStateSlotIsFreeTwice", [](CacheFaults& f) { f.free_slots()[0] = f.free_slots()[1]; }, "state slot"},
};

INSTANTIATE_TEST_SUITE_P(CheckInParts, DamageIsFound, ::testing::ValuesIn(kFaults),
                         [](const auto& info) { return std::string(info.param.what); });

// Requests come and go between the parts of a pass.
class CheckBetweenRequests : public DamageIsFound {};

TEST_P(CheckBetweenRequests, FindsTheDamage) {
  for (int i = 0; i < 40; ++i) {
    next_request();
    engine_.scheduler().check_part(5);
  }
  const auto damaged = [&] {
    engine_.checks = false;
    CacheFaults faults(engine_.scheduler());
    GetParam().make(faults);
    for (int ended = 0; ended < 2;) {
      next_request();
      ended += engine_.scheduler().check_part(5);
    }
  };
  EXPECT_DEATH(damaged(), GetParam().found);
}

const Fault kLasting[] = {
    {"AnIdleBlockIsHeld",
     [](CacheFaults& f) {
       f.pool.hold(f.leaf());
       ++f.idle();
     },
     "is held, counted 0"},
    {"ChildrenAreMiscounted", [](CacheFaults& f) { ++f.children(f.leaf()); }, "children, counted"},
    {"TheNodesAreMiscounted", [](CacheFaults& f) { ++f.nodes(); }, "nodes, counted"},
};

INSTANTIATE_TEST_SUITE_P(CheckInParts, CheckBetweenRequests, ::testing::ValuesIn(kLasting),
                         [](const auto& info) { return std::string(info.param.what); });

TEST(CheckInParts, AnEmptyPoolIsWhole) {
  BlockPool pool(0);
  EXPECT_TRUE(PrefixIndex(pool, 16).check_part(1));
}

}  // namespace
}  // namespace testing
}  // namespace deepinfer
