#include "tensor/buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

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

}  // namespace

Result<Buffer> Buffer::allocate(uint64_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  if (bytes <= std::numeric_limits<uint64_t>::max() / 2) {
    if (bytes >= kLarge) {
      buffer.data_ = map_huge(round_up(bytes, kHugePage));
    } else {
      buffer.data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, round_up(bytes, kAlignment)));
      if (buffer.data_ != nullptr) std::memset(buffer.data_, 0, round_up(bytes, kAlignment));
    }
  }
  if (buffer.data_ == nullptr) {
    return Status(StatusCode::kResourceExhausted, "no room for a buffer of " + std::to_string(bytes) + " bytes");
  }
  buffer.size_ = bytes;
  return buffer;
}

void Buffer::discard() {
  if (size_ >= kLarge && madvise(data_, round_up(size_, kHugePage), MADV_DONTNEED) == 0) return;
  if (size_ > 0) std::memset(data_, 0, size_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Buffer::~Buffer() {
  release();
}

void Buffer::release() noexcept {
  if (data_ == nullptr) return;
  if (size_ >= kLarge) {
    munmap(data_, round_up(size_, kHugePage));
  } else {
    std::free(data_);
  }
  data_ = nullptr;
  size_ = 0;
}

}  // namespace deepinfer
