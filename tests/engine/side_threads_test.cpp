// SideThreads: every piece is done once, before wait() returns, however many threads there are.
#include "engine/side_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

namespace deepinfer {
namespace {

TEST(SideThreads, EveryPieceIsDoneOnce) {
  for (const int threads : {1, 2, 5}) {
    SideThreads side(threads);
    for (size_t batch = 0; batch < 300; ++batch) {
      const size_t pieces = batch % 12;
      std::vector<std::atomic<int>> done(pieces);
      side.start(pieces, [&](size_t piece) { ++done[piece]; });
      side.wait();
      for (const auto& times : done) ASSERT_EQ(times.load(), 1) << threads << " " << batch;
    }
  }
}

TEST(SideThreads, WorkThatWasBegunEndsBeforeTheyGo) {
  std::atomic<int> done{0};
  {
    SideThreads side(3);
    side.start(100, [&](size_t) { ++done; });
    side.wait();
  }
  EXPECT_EQ(done.load(), 100);
}

}  // namespace
}  // namespace deepinfer
