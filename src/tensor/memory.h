// Memory: where the operands of a backend's operations lie, and the way between them and the host.  A backend names its
// own (Ops::memory()); models and the engine allocate through it and never look through a pointer into memory that is
// not the host's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"

namespace deepinfer {

struct FilePiece;

// Of a device's memory, in bytes.
struct MemoryRoom {
  uint64_t total = 0;    // that the device has
  uint64_t granted = 0;  // of it may be in use, by this and by other processes
  uint64_t free = 0;     // may still be allocated
};

class Memory {
 public:
  virtual ~Memory() = default;

  // Whether the processor may read and write it by plain pointers.  write(), read() and copy() are then memcpy.
  virtual bool is_host() const = 0;

  // Now; nothing is said of the host's.
  virtual std::optional<MemoryRoom> room() const { return std::nullopt; }

  // Zeroed, aligned to Buffer::kAlignment.  kResourceExhausted when there is no room.  bytes > 0.  Called at start
  // only; Buffer is the owner.
  virtual Result<std::byte*> allocate(uint64_t bytes) = 0;
  virtual void release(std::byte* data, uint64_t bytes) noexcept = 0;
  // All bytes are zero afterwards; gives memory back to the system as far as that can be done.
  virtual void discard(std::byte* data, uint64_t bytes) = 0;

  // On any thread.  Each is ordered after the operations called before it and before those called after it.  `from` of
  // write() may change once the call has returned; `to` of read() is complete then.
  virtual void write(void* to, const void* from, size_t bytes) = 0;  // from the host
  virtual void read(void* to, const void* from, size_t bytes) = 0;   // to the host
  virtual void copy(void* to, const void* from, size_t bytes) = 0;   // inside; no overlap
  // Waits for everything that was called before.
  virtual void finish() = 0;

  // Reads pieces of files to their places here, which nothing else uses meanwhile.  Complete when it returns.  Errors
  // are those of MappedFile::copy, and of the device.  At start and between steps only.
  virtual Status load(std::span<const FilePiece> pieces);
};

// The host's own.
Memory& host_memory();

}  // namespace deepinfer
