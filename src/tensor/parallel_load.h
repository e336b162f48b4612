// Pieces of files by several threads: in the order of the files, cut into parts that the threads take one after the
// other.  Used by memories whose load() is worth it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/function_ref.h"
#include "base/status.h"
#include "tensor/file_piece.h"

namespace deepinfer {

inline constexpr uint64_t kLoadPart = uint64_t{2} << 20;

// What one thread loads with.
class PartLoader {
 public:
  virtual ~PartLoader() = default;
  // Neighbouring pieces, kLoadPart bytes or less together.
  virtual Status load(std::span<const FilePiece> part) = 0;
  virtual Status finish() { return {}; }  // once, after the last
};
using MakePartLoader = FunctionRef<Result<std::unique_ptr<PartLoader>>(int thread)>;

// Threads that are worth it for so many bytes: those of the affinity mask, no more than 16.
int load_threads(uint64_t bytes);

// make is called on each thread, with 0 to threads - 1, and what it made goes there.  The first error ends all.
Status load_in_parts(std::span<const FilePiece> pieces, int threads, MakePartLoader make);

// By plain reads, straight to places that the processor writes.
Status load_into_host_memory(std::span<const FilePiece> pieces);

}  // namespace deepinfer
