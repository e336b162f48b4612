#include "fibers.h"

#include <sys/mman.h>

#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"

extern "C" void deepinfer_switch_fiber(void** from, void* to);

// Saves the registers that a call keeps, and the stack, of one fiber; takes those of the other.
asm(R"(
.text
.globl deepinfer_switch_fiber
.type deepinfer_switch_fiber, @function
deepinfer_switch_fiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size deepinfer_switch_fiber, . - deepinfer_switch_fiber
)");

namespace deepinfer::emulation {
namespace {

constexpr int kMostThreads = 1024;
constexpr size_t kStack = 64 * 1024;
constexpr size_t kMostBytes = 128;  // of a lane's value

struct Warp {
  int arrived = 0;
  uint64_t generation = 0;
  alignas(64) std::array<std::byte, 32 * kMostBytes> values[2];
};

struct Block {
  std::array<void*, kMostThreads> stack;
  std::array<bool, kMostThreads> done;
  std::array<bool, kMostThreads> at_barrier;
  std::vector<Warp> warps = std::vector<Warp>(kMostThreads / 32);
  std::byte* stacks = nullptr;
  void* scheduler = nullptr;
  FunctionRef<void()>* thread = nullptr;
  int current = 0, arrived = 0, alive = 0;
  uint64_t generation = 0, progress = 0;
};

Block& block() {
  static Block block;
  return block;
}

void leave() {
  Block& b = block();
  deepinfer_switch_fiber(&b.stack[static_cast<size_t>(b.current)], b.scheduler);
}

void fiber_main() {
  Block& b = block();
  (*b.thread)();
  b.done[static_cast<size_t>(b.current)] = true;
  --b.alive;
  ++b.progress;
  leave();
  DI_CHECK(false, "a fiber that has ended does not run");
}

void prepare_fiber(int i) {
  Block& b = block();
  auto* top = reinterpret_cast<void**>(b.stacks + (static_cast<size_t>(i) + 1) * kStack);
  *--top = nullptr;  // keeps the alignment of a call
  *--top = reinterpret_cast<void*>(&fiber_main);
  for (int r = 0; r < 6; ++r) *--top = nullptr;
  b.stack[static_cast<size_t>(i)] = top;
}

void run_fiber(int i) {
  Block& b = block();
  b.current = i;
  running_place.thread = {static_cast<unsigned>(i), 0, 0};
  deepinfer_switch_fiber(&b.scheduler, b.stack[static_cast<size_t>(i)]);
}

}  // namespace

int lane() {
  return block().current % 32;
}

void run_block(int threads, Index index, Index grid, uint64_t order, FunctionRef<void()> thread) {
  Block& b = block();
  DI_CHECK(threads > 0 && threads <= kMostThreads && threads % 32 == 0, "whole warps, at most 1,024 threads");
  if (b.stacks == nullptr) {
    void* stacks = mmap(nullptr, kMostThreads * kStack, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    DI_CHECK(stacks != MAP_FAILED, "room for the fibers' stacks");
    b.stacks = static_cast<std::byte*>(stacks);
  }
  running_place.block = index;
  running_place.grid_size = grid;
  running_place.block_size = {static_cast<unsigned>(threads), 1, 1};
  b.thread = &thread;
  b.arrived = 0;
  b.alive = threads;
  for (int i = 0; i < threads; ++i) {
    b.done[static_cast<size_t>(i)] = b.at_barrier[static_cast<size_t>(i)] = false;
    prepare_fiber(i);
  }
  for (Warp& warp : b.warps) warp.arrived = 0;
  const int warps = threads / 32;
  const int first_warp = static_cast<int>(order % static_cast<uint64_t>(warps));
  const int first_lane = static_cast<int>(order / 7 % 32), direction = order / 3 % 2 == 0 ? 1 : 31;
  while (b.alive > 0) {
    const uint64_t before = b.progress;
    for (int w = 0; w < warps; ++w) {
      const int warp = (first_warp + w) % warps;
      uint64_t seen;
      do {  // until every lane has ended or waits for the whole block
        seen = b.progress;
        for (int l = 0; l < 32; ++l) {
          const int i = warp * 32 + (first_lane + l * direction) % 32;
          if (!b.done[static_cast<size_t>(i)] && !b.at_barrier[static_cast<size_t>(i)]) run_fiber(i);
        }
      } while (b.progress != seen);
    }
    DI_CHECK(b.progress != before, "threads wait for others that do not come: a barrier or collective in a branch");
  }
}

void block_barrier() {
  Block& b = block();
  const auto own = static_cast<size_t>(b.current);
  const uint64_t generation = b.generation;
  ++b.progress;
  if (++b.arrived == static_cast<int>(running_place.block_size.x)) {
    b.arrived = 0;
    ++b.generation;
    b.at_barrier.fill(false);
    return;
  }
  b.at_barrier[own] = true;
  while (b.generation == generation) leave();
}

const std::byte* warp_collective(const void* value, size_t bytes, FunctionRef<void(std::byte* values)> all) {
  Block& b = block();
  DI_CHECK(bytes <= kMostBytes, "a lane's value is small");
  Warp& warp = b.warps[static_cast<size_t>(b.current / 32)];
  const uint64_t generation = warp.generation;
  std::byte* values = warp.values[generation % 2].data();
  std::memcpy(values + static_cast<size_t>(b.current % 32) * bytes, value, bytes);
  ++b.progress;
  if (++warp.arrived == 32) {
    all(values);
    warp.arrived = 0;
    ++warp.generation;
  } else {
    while (warp.generation == generation) leave();
  }
  return values;
}

}  // namespace deepinfer::emulation
