#include "backends/cpu/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace deepinfer {
namespace cpu {
namespace {

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

// The register sets that the operating system saves (XCR0), 0 without XSAVE.
uint64_t saved_state() {
  if ((cpuid(1).ecx >> 27 & 1) == 0) return 0;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

constexpr uint64_t kYmmState = 0x6, kZmmState = 0xE6, kTileState = 0x60000;

// A list of missing instructions for the error message.
class Missing {
 public:
  void require(bool present, const char* name) {
    if (present) return;
    if (!names_.empty()) names_ += ", ";
    names_ += name;
  }
  const std::string& names() const { return names_; }

 private:
  std::string names_;
};

// Linux gives a process the 8 KB of tile registers on request only.
bool request_tiles() {
  constexpr int kArchReqXcompPerm = 0x1023, kTileDataFeature = 18;
  static const bool granted = syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileDataFeature) == 0;
  return granted;
}

}  // namespace

Status check_isa(CpuIsa isa) {
  const Registers basic = cpuid(1), extended = cpuid(7);
  const uint64_t state = saved_state();
  Missing missing;
  missing.require(basic.ecx >> 12 & 1, "FMA");
  missing.require(basic.ecx >> 29 & 1, "F16C");
  missing.require(extended.ebx >> 5 & 1, "AVX2");
  missing.require((state & kYmmState) == kYmmState, "AVX state saved by the operating system");
  if (isa != CpuIsa::kAvx2) {
    missing.require(extended.ebx >> 16 & 1, "AVX512F");
    missing.require(extended.ebx >> 17 & 1, "AVX512DQ");
    missing.require(extended.ebx >> 30 & 1, "AVX512BW");
    missing.require(extended.ebx >> 31 & 1, "AVX512VL");
    missing.require(extended.ecx >> 11 & 1, "AVX512_VNNI");
    missing.require((state & kZmmState) == kZmmState, "AVX-512 state saved by the operating system");
  }
  if (isa == CpuIsa::kAmx) {
    missing.require(extended.ecx >> 1 & 1, "AVX512_VBMI");
    missing.require(extended.ecx >> 8 & 1, "GFNI");
    missing.require(cpuid(7, 1).eax >> 5 & 1, "AVX512_BF16");
    missing.require(extended.edx >> 22 & 1, "AMX-BF16");
    missing.require(extended.edx >> 24 & 1, "AMX-TILE");
    missing.require((state & kTileState) == kTileState, "tile state saved by the operating system");
  }
  if (missing.names().empty() && isa == CpuIsa::kAmx) {
    missing.require(request_tiles(), "the operating system's permission for tile registers");
  }
  if (missing.names().empty()) return {};
  return unsupported("the CPU path " + std::string(to_string(isa)) + " lacks " + missing.names());
}

}  // namespace cpu

std::string_view to_string(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kAvx512:
      return "avx512";
    case CpuIsa::kAmx:
      return "amx";
  }
  return "?";
}

Result<CpuIsa> select_cpu_isa() {
  constexpr CpuIsa kBestFirst[] = {CpuIsa::kAmx, CpuIsa::kAvx512, CpuIsa::kAvx2};
  if (const char* forced = std::getenv("DEEPINFER_CPU_ISA"); forced != nullptr && *forced != '\0') {
    for (CpuIsa isa : kBestFirst) {
      if (to_string(isa) != forced) continue;
      DI_RETURN_IF_ERROR(cpu::check_isa(isa).with_context("DEEPINFER_CPU_ISA"));
      return isa;
    }
    return invalid_argument("DEEPINFER_CPU_ISA is \"" + std::string(forced) + "\"; allowed: avx2, avx512, amx");
  }
  Status reason;
  for (CpuIsa isa : kBestFirst) {
    reason = cpu::check_isa(isa);
    if (reason.ok()) return isa;
  }
  return reason;
}

}  // namespace deepinfer
