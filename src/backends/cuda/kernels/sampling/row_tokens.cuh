// The tokens of one row as the block that samples it sees them: their order, their masses, sums and searches over them.
// Every function is for all threads of the block, begins and ends with a barrier where it shares memory, and gives
// every thread the same answer.
#pragma once

#include <cstdint>

#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/kernels/sampling/noise.cuh"

namespace deepinfer::cuda {

constexpr int kSampleThreads = 512;
constexpr float kForbidden = -__builtin_huge_valf();

using Mass = unsigned long long;
using Key = unsigned long long;

// (logit descending, id ascending) as one number: the larger, the more likely.  0 is no token.
__device__ __forceinline__ Key key_of_token(float z, int64_t token) {
  const uint32_t bits = __float_as_uint(z + 0.0f);  // -0 is 0
  const uint32_t order = bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
  return static_cast<Key>(order) << 32 | (0xffffffffu - static_cast<uint32_t>(token));
}
__device__ __forceinline__ int32_t token_of_key(Key key) {
  return static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(key));
}

// A set of tokens: finite ones from a key on, of at least a weight.
struct TokenSet {
  const float* z;
  int64_t vocabulary;
  float top;        // the largest logit
  float r;          // 1 / temperature
  Key cut = 0;      // keys below are out
  float least = 0;  // weights below are out; 0: none is

  __device__ float exponent(int64_t token) const { return __fmul_rn(__fadd_rn(z[token], -top), r); }
  __device__ Mass mass(int64_t token) const { return weight_mass(exp_weight(exponent(token))); }
  __device__ bool has(int64_t token) const {
    if (!(z[token] > kForbidden) || key_of_token(z[token], token) < cut) return false;
    return !(least > 0 && exp_weight(exponent(token)) < least);
  }
};

template <typename T, typename Combine>
__device__ T block_reduce(T value, T* parts, Combine combine) {
  for (int step = 16; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(kAllLanes, value, step));
  __syncthreads();
  if (lane_id() == 0) parts[warp_id()] = value;
  __syncthreads();
  T all = parts[0];
  for (int i = 1; i < kSampleThreads / 32; ++i) all = combine(all, parts[i]);
  __syncthreads();
  return all;
}
__device__ inline Mass block_total(Mass value) {
  __shared__ Mass parts[kSampleThreads / 32];
  return block_reduce(value, parts, [](Mass a, Mass b) { return a + b; });
}
__device__ inline Key block_largest(Key value) {
  __shared__ Key parts[kSampleThreads / 32];
  return block_reduce(value, parts, [](Key a, Key b) { return a > b ? a : b; });
}
__device__ inline Key block_smallest(Key value) {
  __shared__ Key parts[kSampleThreads / 32];
  return block_reduce(value, parts, [](Key a, Key b) { return a < b ? a : b; });
}

// The most likely token below a key as its key; 0: none.
__device__ inline Key most_likely(const TokenSet& set, Key below) {
  Key best = 0;
  for (int64_t v = threadIdx.x; v < set.vocabulary; v += kSampleThreads) {
    const Key key = key_of_token(set.z[v], v);
    if (key > best && key < below && set.has(v)) best = key;
  }
  return block_largest(best);
}

__device__ inline Mass count_of(const TokenSet& set) {
  Mass count = 0;
  for (int64_t v = threadIdx.x; v < set.vocabulary; v += kSampleThreads) count += set.has(v) ? 1 : 0;
  return block_total(count);
}

__device__ inline Mass total_mass(const TokenSet& set) {
  Mass sum = 0;
  for (int64_t v = threadIdx.x; v < set.vocabulary; v += kSampleThreads)
    if (set.has(v)) sum += set.mass(v);
  return block_total(sum);
}

enum class Until {
  kCount,  // the `limit` most likely tokens, limit from 1 to the set's size
  kMass,   // tokens whose more likely ones have together no more than the mass `limit`, less than the set's
};

// The key of the least likely token that is kept, found digit by digit.  The first digit is the distance from the top,
// in eighths of a unit: that spreads likely tokens over many bins, so that few threads meet at one counter.
template <Until kUntil>
__device__ Key find_cut(const TokenSet& set, Mass limit) {
  __shared__ Mass masses[256];
  __shared__ unsigned counts[256];
  __shared__ Mass left;
  __shared__ int found, found_count;
  int distance_bin = 0;
  Key prefix = 0, mask = 0;
  if (threadIdx.x == 0) left = limit;
  const auto bin_of_distance = [&](int64_t v) {
    const float distance = -8.0f * set.exponent(v);
    return distance < 255.0f ? static_cast<int>(distance) : 255;
  };
  const auto is_candidate = [&](int64_t v, int pass) {
    if (!set.has(v)) return false;
    return pass == 0 || ((key_of_token(set.z[v], v) & mask) == prefix && bin_of_distance(v) == distance_bin);
  };
  int pass = 0;
  for (; pass <= 8; ++pass) {
    __syncthreads();
    if (threadIdx.x < 256) {
      masses[threadIdx.x] = 0;
      counts[threadIdx.x] = 0;
    }
    __syncthreads();
    for (int64_t v = threadIdx.x; v < set.vocabulary; v += kSampleThreads) {
      if (!is_candidate(v, pass)) continue;
      const int bin =
          pass == 0 ? 255 - bin_of_distance(v) : static_cast<int>(key_of_token(set.z[v], v) >> (64 - 8 * pass) & 255u);
      atomicAdd(&counts[bin], 1u);
      if (kUntil == Until::kMass) atomicAdd(&masses[bin], set.mass(v));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      Mass before = 0, before_found = 0;
      for (int bin = 255; bin >= 0; --bin) {
        if (counts[bin] == 0) continue;
        if (kUntil == Until::kMass && before > left) break;
        found = bin;
        found_count = static_cast<int>(counts[bin]);
        before_found = before;
        before += kUntil == Until::kMass ? masses[bin] : counts[bin];
        if (kUntil == Until::kCount && before >= left) break;
      }
      left -= before_found;
    }
    __syncthreads();
    if (pass == 0) {
      distance_bin = 255 - found;
    } else {
      prefix |= static_cast<Key>(found) << (64 - 8 * pass);
      mask |= static_cast<Key>(255) << (64 - 8 * pass);
    }
    if (found_count == 1) break;
  }
  Key cut = ~static_cast<Key>(0);
  for (int64_t v = threadIdx.x; v < set.vocabulary; v += kSampleThreads) {
    const Key key = key_of_token(set.z[v], v);
    if (key < cut && is_candidate(v, 1)) cut = key;
  }
  return block_smallest(cut);
}

}  // namespace deepinfer::cuda
