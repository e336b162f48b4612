// FileIo: many reads and writes of files at once, through io_uring where the system permits it, else one after the
// other with pread and pwrite.  Used by the disk store; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace deepinfer {

enum class KvDiskIo : uint8_t { kAuto, kUring, kPread };

struct IoPiece {
  int file = -1;
  uint64_t offset = 0;
  std::byte* memory = nullptr;
  size_t bytes = 0;
  int error = 0;  // errno; EIO also for a file that ends too early
};

class FileIo {
 public:
  virtual ~FileIo() = default;
  // All pieces are done or have an error when it returns.
  virtual void read(std::span<IoPiece> pieces) = 0;
  virtual void write(std::span<IoPiece> pieces) = 0;
  virtual std::string_view name() const = 0;  // "io_uring", "pread"
};

// Null for kUring where the system does not permit it; kAuto takes pread then.
std::unique_ptr<FileIo> make_file_io(KvDiskIo io);

}  // namespace deepinfer
