#include "base/on_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace deepinfer {
namespace {

TEST(OnThreads, DoesEachPartOnce) {
  for (const size_t count : {0, 1, 2, 17}) {
    std::vector<std::atomic<int>> times(count);
    on_threads(count, [&](size_t i) { ++times[i]; });
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(times[i], 1) << i << " of " << count;
  }
}

}  // namespace
}  // namespace deepinfer
