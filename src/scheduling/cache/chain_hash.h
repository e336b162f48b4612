// ChainKey: the name of a prefix, a 128-bit hash of a salt and of all tokens block by block.  It finds a prefix in the
// prefix index and can name it in other places, on other machines and in later processes: keys depend on nothing else.
// A key is no proof; whoever finds records by it compares the tokens.
#pragma once

#include <cstdint>
#include <span>

namespace deepinfer {

struct ChainKey {
  uint64_t low = 0, high = 0;
  friend bool operator==(const ChainKey&, const ChainKey&) = default;
};

// The key of a block: that of its parent (the first: of the salt) and its tokens.
using ChainHash = ChainKey (*)(ChainKey parent, std::span<const int32_t> tokens);

// XXH3, 128 bits, of the parent's low and high half and the tokens, all little-endian.
ChainKey chain_hash(ChainKey parent, std::span<const int32_t> tokens);
ChainKey chain_root(uint64_t salt);

}  // namespace deepinfer
