#include "scheduling/cache/chain_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace deepinfer {
namespace {

ChainKey key_of(XXH128_hash_t hash) {
  return {.low = hash.low64, .high = hash.high64};
}

}  // namespace

ChainKey chain_hash(ChainKey parent, std::span<const int32_t> tokens) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, &parent, sizeof parent);
  XXH3_128bits_update(&state, tokens.data(), tokens.size_bytes());
  return key_of(XXH3_128bits_digest(&state));
}

ChainKey chain_root(uint64_t salt) {
  return key_of(XXH3_128bits(&salt, sizeof salt));
}

}  // namespace deepinfer
