#include "tensor/buffer.h"

#include <utility>

namespace deepinfer {

Result<Buffer> Buffer::allocate(uint64_t bytes, Memory& memory) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  DI_ASSIGN_OR_RETURN(buffer.data_, memory.allocate(bytes));
  buffer.memory_ = &memory;
  buffer.size_ = bytes;
  return buffer;
}

void Buffer::discard() {
  if (data_ != nullptr) memory_->discard(data_, size_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : memory_(other.memory_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    memory_ = other.memory_;
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
  memory_->release(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace deepinfer
