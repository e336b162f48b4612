#include "scheduling/cache/chain_hash.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

namespace deepinfer {
namespace {

// Keys name records outside of the process: they may not change.  Values by the Python package `xxhash`,
// xxh3_128_intdigest of the little-endian bytes.
TEST(ChainHash, IsXxh3OfTheParentsHalvesAndTheTokens) {
  std::vector<int32_t> block(128);
  std::iota(block.begin(), block.end(), 0);
  const std::vector<int32_t> odd = {-1, std::numeric_limits<int32_t>::max(), 5};

  const ChainKey root = chain_root(0x0123456789abcdef);
  EXPECT_EQ(root, (ChainKey{.low = 0xdc7da55868feb560, .high = 0x9d0a16a121edc615}));
  const ChainKey first = chain_hash(root, block);
  EXPECT_EQ(first, (ChainKey{.low = 0x52a0b98115fdd05d, .high = 0x75b67f23293902c1}));
  EXPECT_EQ(chain_hash(first, odd), (ChainKey{.low = 0x53727c49cc1643d9, .high = 0x8d8a0a6492e1d702}));
  EXPECT_EQ(chain_root(0), (ChainKey{.low = 0x45c3b49d035665b2, .high = 0x2c0a8a99dc147d54}));
}

}  // namespace
}  // namespace deepinfer
