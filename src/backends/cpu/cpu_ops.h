// The CPU backend: Ops by instruction set, chosen once at start.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "base/thread_pool.h"
#include "ops/ops.h"

namespace deepinfer {

enum class CpuIsa {
  kAvx2,    // AVX2, FMA, F16C: the floor
  kAvx512,  // AVX-512 F, BW, VL, DQ and VNNI
  kAmx,     // AVX-512 as above, VBMI, BF16, GFNI and AMX-BF16 tiles
};

std::string_view to_string(CpuIsa isa);

// The best path of this machine, or the one that DEEPINFER_CPU_ISA (avx2, avx512, amx) names.
// Unsupported: this CPU lacks the path's instructions (the message lists them).
Result<CpuIsa> select_cpu_isa();

struct CpuOpsOptions {
  ThreadPoolOptions threads;
  std::optional<CpuIsa> isa;  // default: select_cpu_isa()
};

// Results do not depend on the number of threads, on rows or on chunks inside one path; between paths only the order of
// summation differs.  Errors: an unsupported path; kResourceExhausted where the system refuses the threads asked for.
Result<std::unique_ptr<Ops>> make_cpu_ops(const CpuOpsOptions& options = {});

}  // namespace deepinfer
