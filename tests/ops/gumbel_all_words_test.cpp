// The noise of all 2^32 random words, summed.  Built for AVX2 and FMA so that it ends in a minute; single fp32
// operations give the same bits with and without vector registers.
#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <thread>
#include <vector>

#include "ops/reference/sampling_noise.h"

namespace deepinfer {
namespace {

uint64_t sum_of_bits(uint64_t first, uint64_t last) {
  uint64_t sum = 0;
  for (uint64_t word = first; word < last; word += 4096) {
    for (uint32_t i = 0; i < 4096; ++i) {
      sum += std::bit_cast<uint32_t>(reference::gumbel(static_cast<uint32_t>(word) + i));
    }
  }
  return sum;
}

TEST(SamplingKnownAnswers, GumbelSumOfAllWords) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP() << "needs AVX2 and FMA";
  constexpr uint64_t kParts = 64;
  std::vector<uint64_t> sums(kParts);
  std::vector<std::thread> threads;
  const uint64_t workers = std::max(1u, std::thread::hardware_concurrency());
  for (uint64_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&sums, worker, workers] {
      for (uint64_t part = worker; part < kParts; part += workers) {
        sums[part] = sum_of_bits(part << 26, (part + 1) << 26);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), uint64_t{0}), 0x6E35C587887ECC44u);
}

}  // namespace
}  // namespace deepinfer
