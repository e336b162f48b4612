// DeviceMemory: the GPU's memory as tensor/memory.h has it, on the stream of the operations.
#pragma once

#include <mutex>

#include "backends/cuda/launch/stream.h"
#include "backends/cuda/launch/write_ring.h"
#include "base/status.h"
#include "tensor/memory.h"

namespace deepinfer::cuda {

class DeviceMemory final : public Memory {
 public:
  // Before everything else.  share: of the device's memory that may be in use, (0, 1].
  Status open(Stream stream, double share = 1);

  bool is_host() const override { return false; }
  std::optional<MemoryRoom> room() const override;
  Result<std::byte*> allocate(uint64_t bytes) override;
  void release(std::byte* data, uint64_t bytes) noexcept override;
  void discard(std::byte* data, uint64_t bytes) override;
  void write(void* to, const void* from, size_t bytes) override;
  void read(void* to, const void* from, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void finish() override;
  Status load(std::span<const FilePiece> pieces) override;

  // The first error of these calls; later ones do nothing.
  Status status();

 private:
  void note(Status status);
  bool well();

  Stream stream_;     // by its conversion: behind what is recorded
  double share_ = 1;
  std::mutex mutex_;  // of what is below: calls come from any thread
  WriteRing ring_;
  Status status_;
};

}  // namespace deepinfer::cuda
