#include "base/allocation_count.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> allocations{0};
// Numbers of the allocations that fail: from the first to before the last.
std::atomic<int64_t> failing_from{0}, failing_to{0};
std::atomic<bool> failed{false};

void* counted(std::size_t bytes, std::size_t alignment) {
  const int64_t number = allocations.fetch_add(1, std::memory_order_relaxed);
  if (number < failing_to.load(std::memory_order_relaxed) && number >= failing_from.load(std::memory_order_relaxed)) {
    failed.store(true, std::memory_order_relaxed);
    throw std::bad_alloc();
  }
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace deepinfer {

int64_t allocation_count() {
  return allocations.load();
}

FailedAllocation::FailedAllocation(int64_t nth, int64_t count) {
  failed.store(false);
  const int64_t first = allocations.load() + nth;
  failing_from.store(first);
  failing_to.store(first + count);
}
FailedAllocation::~FailedAllocation() {
  failing_to.store(0);
}
bool FailedAllocation::happened() const {
  return failed.load();
}

}  // namespace deepinfer

void* operator new(std::size_t bytes) {
  return counted(bytes, alignof(std::max_align_t));
}
void* operator new[](std::size_t bytes) {
  return counted(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
