// What this CPU can execute.  Used by select_cpu_isa (cpu_ops.h) and by make_cpu_ops before a path's first instruction.
#pragma once

#include <string>

#include "backends/cpu/cpu_ops.h"
#include "base/status.h"

namespace deepinfer::cpu {

// Ok if the CPU and the operating system support every instruction of the path; else Unsupported with the missing ones.
// For kAmx it also asks the kernel for the tile registers, once per process: every later thread may use them.
Status check_isa(CpuIsa isa);

}  // namespace deepinfer::cpu
