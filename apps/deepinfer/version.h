// What `deepinfer --version` prints, and the commit that benchmark results carry.
#pragma once

#include <string>

namespace deepinfer::cli {

// Version, commit, compiler, the backends of this build, and the CPU paths with the one this machine gets.
std::string version_text();

std::string program_version();
std::string commit_id();

}  // namespace deepinfer::cli
