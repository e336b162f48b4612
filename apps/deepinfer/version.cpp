#include "version.h"

#include <fmt/format.h>

#include "backends/cpu/cpu_ops.h"
#include "backends/named_backend.h"
#include "build_info.h"

namespace deepinfer::cli {

std::string version_text() {
  std::string paths;
  for (const CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAmx})
    paths += fmt::format("{}{}", paths.empty() ? "" : ", ", to_string(isa));
  const Result<CpuIsa> selected = select_cpu_isa();
  return fmt::format("deepinfer {}\ncommit    {}\ncompiler  {}, {}\nbackends  {}\nCPU paths {} (here: {})", kVersion,
                     kCommit, kCompiler, kBuildType, built_backends(), paths,
                     selected.ok() ? std::string(to_string(*selected)) : "none, " + selected.status().message());
}

std::string program_version() {
  return kVersion;
}

std::string commit_id() {
  return kCommit;
}

}  // namespace deepinfer::cli
