// Files into device memory: several threads (tensor/parallel_load.h) read into pinned memory and copy from there, so
// that reading and copying go on at the same time.  Used by DeviceMemory when weights are placed.
#pragma once

#include <span>

#include "base/status.h"
#include "tensor/file_piece.h"

namespace deepinfer::cuda {

// Complete when it returns; the caller sees to it that nothing else uses these places meanwhile.  Pinned memory: 4 MiB
// a thread, given back at the end.  Errors: of the device, of a file (MappedFile::copy), kResourceExhausted.
Status upload_files(std::span<const FilePiece> pieces);

}  // namespace deepinfer::cuda
