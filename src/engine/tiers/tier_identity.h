// What makes records of the prefix cache interchangeable, as text: the store of one identity never sees another's.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/status.h"

namespace deepinfer {

// Of the model in `folder`: its configuration and token files whole; of each checkpoint file name, size, time of the
// last change, header and kEvidencePieces pieces of the weights.  Reading all weights would take longer than the cache
// saves. Errors: as reading the files.
Result<std::string> model_identity(const std::filesystem::path& folder);

// 32 hexadecimal digits over the same, but for the times of change: equal for copies of a model.
Result<std::string> model_contents_checksum(const std::filesystem::path& folder);

// Of the program: a checksum of the file that this code was loaded from.  Another build may round differently.
Result<std::string> program_identity();
// 32 hexadecimal digits of that file.
Result<std::string> program_checksum();

// A checksum of all bytes of a file.
Result<std::string> checksum_of_file(const std::filesystem::path& path);

inline constexpr int kEvidencePieces = 256;

}  // namespace deepinfer
