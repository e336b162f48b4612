#include "bench/machine_limits.h"

#include <immintrin.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "base/check.h"

namespace deepinfer::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Keeps a result alive without storing it anywhere that matters.
std::atomic<uint64_t> sink{0};

__attribute__((target("avx2"))) void read_all(const std::byte* data, int64_t bytes) {
  __m256i sum[8] = {};
  for (int64_t at = 0; at + 256 <= bytes; at += 256) {
    for (int lane = 0; lane < 8; ++lane)
      sum[lane] =
          _mm256_xor_si256(sum[lane], _mm256_load_si256(reinterpret_cast<const __m256i*>(data + at + 32 * lane)));
  }
  for (int lane = 1; lane < 8; ++lane) sum[0] = _mm256_xor_si256(sum[0], sum[lane]);
  sink.fetch_xor(static_cast<uint64_t>(_mm256_extract_epi64(sum[0], 0)), std::memory_order_relaxed);
}

}  // namespace

int64_t last_level_cache_bytes() {
  int64_t bytes = 0;
  for (const int name : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE})
    bytes = std::max<int64_t>(bytes, sysconf(name));
  return bytes;
}

Result<ReadBandwidth> ReadBandwidth::prepare(int64_t bytes, ThreadPool& pool) {
  DI_ASSIGN_OR_RETURN(Buffer buffer, Buffer::allocate(static_cast<uint64_t>(bytes)));
  // Pages of zeros would all be the same physical page: write each, from the thread that will read it.
  std::byte* data = buffer.data();
  const int64_t tasks = pool.threads();
  pool.parallel_for(tasks, [&](int64_t task, int) {
    const int64_t begin = bytes * task / tasks, end = bytes * (task + 1) / tasks;
    std::memset(data + begin, static_cast<int>(task + 1), static_cast<size_t>(end - begin));
  });
  return ReadBandwidth(std::move(buffer));
}

double ReadBandwidth::sample(ThreadPool& pool) {
  constexpr int64_t kPiece = int64_t{4} << 20;
  const int64_t bytes = static_cast<int64_t>(buffer_.size());
  const std::byte* data = buffer_.data();
  const auto start = Clock::now();
  pool.parallel_for((bytes + kPiece - 1) / kPiece, [&](int64_t piece, int) {
    read_all(data + piece * kPiece, std::min(kPiece, bytes - piece * kPiece));
  });
  return static_cast<double>(bytes) / seconds_since(start);
}

}  // namespace deepinfer::bench
