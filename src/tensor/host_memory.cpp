// The host's memory: small pieces from the heap, large ones mapped for huge pages (buffer.h says why).
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "tensor/buffer.h"
#include "tensor/memory.h"
#include "tensor/parallel_load.h"

namespace deepinfer {
namespace {

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Maps bytes (a multiple of the huge page) at a multiple of the huge page: maps one page more and trims both ends.
std::byte* map_huge(size_t bytes) {
  const size_t mapped = bytes + Buffer::kHugePage;
  void* address = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  std::byte* const first = static_cast<std::byte*>(address);
  const size_t before =
      round_up(reinterpret_cast<uintptr_t>(first), Buffer::kHugePage) - reinterpret_cast<uintptr_t>(first);
  const size_t after = mapped - before - bytes;
  if (before > 0) munmap(first, before);
  if (after > 0) munmap(first + before + bytes, after);
  madvise(first + before, bytes, MADV_HUGEPAGE);  // a hint: a kernel without huge pages refuses it
  return first + before;
}

class HostMemory final : public Memory {
 public:
  bool is_host() const override { return true; }

  Result<std::byte*> allocate(uint64_t bytes) override {
    std::byte* data = nullptr;
    if (bytes <= std::numeric_limits<uint64_t>::max() / 2) {
      if (bytes >= Buffer::kLarge) {
        data = map_huge(round_up(bytes, Buffer::kHugePage));
      } else {
        const uint64_t rounded = round_up(bytes, Buffer::kAlignment);
        data = static_cast<std::byte*>(std::aligned_alloc(Buffer::kAlignment, rounded));
        if (data != nullptr) std::memset(data, 0, rounded);
      }
    }
    if (data == nullptr)
      return Status(StatusCode::kResourceExhausted, "no room for a buffer of " + std::to_string(bytes) + " bytes");
    return data;
  }

  void release(std::byte* data, uint64_t bytes) noexcept override {
    if (bytes >= Buffer::kLarge) {
      munmap(data, round_up(bytes, Buffer::kHugePage));
    } else {
      std::free(data);
    }
  }

  void discard(std::byte* data, uint64_t bytes) override {
    if (bytes >= Buffer::kLarge && madvise(data, round_up(bytes, Buffer::kHugePage), MADV_DONTNEED) == 0) return;
    std::memset(data, 0, bytes);
  }

  void write(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void read(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void finish() override {}
  Status load(std::span<const FilePiece> pieces) override { return load_into_host_memory(pieces); }
};

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace deepinfer
