// What the arithmetic units of this machine can do at best: the limit that utilisation is measured against.  Called by
// benchmarks and by programs that print it; nothing of the backend depends on it.
#pragma once

#include <string_view>

#include "base/thread_pool.h"

namespace deepinfer {

enum class PeakUnit {
  kFp32Avx2,    // FMA on 8 floats
  kFp32Avx512,  // FMA on 16 floats
  kBf16Amx,     // bf16 tiles
};
std::string_view to_string(PeakUnit unit);

// The unit that products of a path run on: "cpu/avx2", "cpu/avx512", "cpu/amx".
PeakUnit peak_unit_of(std::string_view backend);

// Floating-point operations a second (a multiply-add is two) of all threads of a pool from registers, for about 20 ms.
// The CPU must have the unit.
double sample_peak(PeakUnit unit, ThreadPool& pool);

// The best of three samples on threads of its own; 0 for a backend that is not written for this machine's units.
double measure_peak(std::string_view backend, const ThreadPoolOptions& threads);

}  // namespace deepinfer
