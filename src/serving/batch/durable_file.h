// Small files that are whole or not there, whatever happens while they are written.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/status.h"

namespace deepinfer::serving {

// Behind the name of a file that is being written.
inline constexpr std::string_view kUnfinished = ".part";

// Replaces the file; afterwards it is on the disk.  kIoError, and then the old file is still there.
Status write_durably(const std::filesystem::path& file, std::string_view content);
// Names of a folder are on the disk, not only in the system's memory.
Status sync_folder(const std::filesystem::path& folder);

}  // namespace deepinfer::serving
