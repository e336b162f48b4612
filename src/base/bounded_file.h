// read_bounded_file: a small file of a model folder, whole, and never more of it than was planned for.  Called by every
// reader of JSON and lists; weights are mapped instead (tensor/mapped_file.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/status.h"

namespace deepinfer {

// What readers accept, in bytes; the released files have 3 kB, 1 MB and 8 MB.
inline constexpr uint64_t kMaxConfigFileBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMaxTokenMapFileBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMaxTokenizerFileBytes = uint64_t{256} << 20;

// Symbolic links are followed.  Messages begin with the path.  Errors: kNotFound; kInvalidArgument for a folder, pipe
// or device; kCorruptFile for more than most_bytes (both numbers named, nothing read); kIoError with the system's
// reason, also for a file that became shorter meanwhile; kResourceExhausted naming the size.
Result<std::string> read_bounded_file(const std::filesystem::path& path, uint64_t most_bytes);

}  // namespace deepinfer
