// Threads of a block as fibers: run_block() runs one block; the functions below it are for its threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/function_ref.h"

namespace deepinfer::emulation {

struct Index {  // dim3, uint3
  unsigned x = 1, y = 1, z = 1;
};

// What the running thread sees.
struct Place {
  Index thread, block, block_size, grid_size;
};
inline Place running_place;

// threads is a multiple of 32.  order: any number; it decides which thread runs first.
void run_block(int threads, Index block, Index grid, uint64_t order, FunctionRef<void()> thread);

void block_barrier();
// All 32 lanes of a warp bring a value of `bytes` and go on when all have; the one that comes last runs `all` on the 32
// values first, in place.  Returns the values; they stay until the warp's collective after the next.
const std::byte* warp_collective(const void* value, size_t bytes, FunctionRef<void(std::byte* values)> all);
int lane();

}  // namespace deepinfer::emulation
