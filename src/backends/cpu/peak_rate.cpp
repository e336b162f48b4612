#include "backends/cpu/peak_rate.h"

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

namespace deepinfer {
namespace {

// Keeps a result alive without storing it anywhere that matters.
std::atomic<uint64_t> sink{0};

// Each round of these is 12 independent chains: more than latency times throughput of any core so far.
constexpr int kChains = 12;

__attribute__((target("avx2,fma"))) double fma_avx2(int64_t rounds) {
  __m256 sum[kChains];
  for (__m256& one : sum) one = _mm256_set1_ps(1.0f);
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (int64_t i = 0; i < rounds; ++i)
    for (__m256& one : sum) one = _mm256_fmadd_ps(one, a, b);
  for (int chain = 1; chain < kChains; ++chain) sum[0] = _mm256_add_ps(sum[0], sum[chain]);
  sink.fetch_xor(static_cast<uint64_t>(_mm256_cvtss_f32(sum[0])), std::memory_order_relaxed);
  return 2.0 * 8 * kChains * static_cast<double>(rounds);
}

__attribute__((target("avx512f"))) double fma_avx512(int64_t rounds) {
  __m512 sum[kChains];
  for (__m512& one : sum) one = _mm512_set1_ps(1.0f);
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (int64_t i = 0; i < rounds; ++i)
    for (__m512& one : sum) one = _mm512_fmadd_ps(one, a, b);
  for (int chain = 1; chain < kChains; ++chain) sum[0] = _mm512_add_ps(sum[0], sum[chain]);
  sink.fetch_xor(static_cast<uint64_t>(_mm512_cvtss_f32(sum[0])), std::memory_order_relaxed);
  return 2.0 * 16 * kChains * static_cast<double>(rounds);
}

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t column_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Four accumulators over two operands each: 16 x 16 x 32 multiply-adds a tile instruction.  The operands are random
// numbers of both signs and of eight powers of two: on zeros the unit may run faster than it ever does on data.
__attribute__((target("amx-tile,amx-bf16"))) double dot_amx(int64_t rounds) {
  constexpr int kArchRequestPermission = 0x1023, kTileData = 18;
  syscall(SYS_arch_prctl, kArchRequestPermission, kTileData);
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.column_bytes[tile] = 64;
    config.rows[tile] = 16;
  }
  _tile_loadconfig(&config);
  alignas(64) uint16_t operands[4][512];
  uint32_t random = 2463534242;
  for (uint16_t& value : std::span(&operands[0][0], 4 * 512)) {
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    value = static_cast<uint16_t>(0x3C00 | (random & 0x83FF));
  }
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, operands[0], 64);
  _tile_loadd(5, operands[1], 64);
  _tile_loadd(6, operands[2], 64);
  _tile_loadd(7, operands[3], 64);
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  alignas(64) float out[256];
  _tile_stored(0, out, 64);
  _tile_release();
  sink.fetch_xor(static_cast<uint64_t>(out[0]), std::memory_order_relaxed);
  return 4.0 * 2 * 16 * 16 * 32 * static_cast<double>(rounds);
}

double run_unit(PeakUnit unit, int64_t rounds) {
  switch (unit) {
    case PeakUnit::kFp32Avx2:
      return fma_avx2(rounds);
    case PeakUnit::kFp32Avx512:
      return fma_avx512(rounds);
    case PeakUnit::kBf16Amx:
      return dot_amx(rounds);
  }
  return 0;
}

}  // namespace

std::string_view to_string(PeakUnit unit) {
  switch (unit) {
    case PeakUnit::kFp32Avx2:
      return "AVX2 FMA";
    case PeakUnit::kFp32Avx512:
      return "AVX-512 FMA";
    case PeakUnit::kBf16Amx:
      return "AMX bf16";
  }
  return "";
}

PeakUnit peak_unit_of(std::string_view backend) {
  if (backend.ends_with("amx")) return PeakUnit::kBf16Amx;
  if (backend.ends_with("avx512")) return PeakUnit::kFp32Avx512;
  return PeakUnit::kFp32Avx2;
}

double sample_peak(PeakUnit unit, ThreadPool& pool) {
  const int64_t rounds = unit == PeakUnit::kBf16Amx ? 1'000'000 : 10'000'000;
  std::atomic<int64_t> operations{0};
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  pool.parallel_for(pool.threads(), [&](int64_t, int) {
    operations.fetch_add(static_cast<int64_t>(run_unit(unit, rounds)), std::memory_order_relaxed);
  });
  return static_cast<double>(operations.load()) / std::chrono::duration<double>(Clock::now() - start).count();
}

double measure_peak(std::string_view backend, const ThreadPoolOptions& threads) {
  if (!backend.starts_with("cpu/")) return 0;
  ThreadPool pool(threads);
  double best = 0;
  for (int sample = 0; sample < 3; ++sample) best = std::max(best, sample_peak(peak_unit_of(backend), pool));
  return best;
}

}  // namespace deepinfer
