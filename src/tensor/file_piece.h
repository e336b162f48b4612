// FilePiece: bytes of a file on their way into a memory.  Made by a model that places its weights; Memory::load() takes
// them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/mapped_file.h"

namespace deepinfer {

struct FilePiece {
  const MappedFile* file = nullptr;
  uint64_t offset = 0;  // in the file
  uint64_t bytes = 0;
  std::byte* to = nullptr;
};

}  // namespace deepinfer
