// Buffer: owned memory for weights, caches and scratch, of the host or of a backend, allocated at start and never on
// the token path.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "tensor/memory.h"

namespace deepinfer {

// Zeroed, aligned to 64 bytes.  On the host from kLarge on aligned to 2 MiB and advised to use huge pages, as scratch
// that is used in every step should not be looked up page by page.  Large pages of zeros are not touched here: the
// thread that first writes one decides its NUMA node.
class Buffer {
 public:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kHugePage = size_t{2} << 20;
  static constexpr size_t kLarge = size_t{256} << 10;

  // kResourceExhausted when there is no room for it; bytes may be 0.  The memory outlives the buffer.
  static Result<Buffer> allocate(uint64_t bytes, Memory& memory = host_memory());

  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  // Gives the memory back to the system as far as it can be; all bytes are zero afterwards.
  void discard();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }  // bytes

  template <typename T>
  T* as() {
    static_assert(alignof(T) <= kAlignment);
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    static_assert(alignof(T) <= kAlignment);
    return reinterpret_cast<const T*>(data_);
  }

 private:
  void release() noexcept;

  Memory* memory_ = nullptr;  // of data_
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace deepinfer
