// PinnedMemory: page-locked memory of the host that kernels read over the bus, at the addresses that the processor has
// for it.  Ops::reachable_host_memory() of the CUDA backend.
#pragma once

#include "backends/cuda/launch/stream.h"
#include "tensor/memory.h"

namespace deepinfer::cuda {

class PinnedMemory final : public Memory {
 public:
  // Before everything else.  Of the kernels that read it.
  void open(Stream stream) { stream_ = stream; }

  bool is_host() const override { return true; }
  Result<std::byte*> allocate(uint64_t bytes) override;
  void release(std::byte* data, uint64_t bytes) noexcept override;
  void discard(std::byte* data, uint64_t bytes) override;
  // All three wait for the kernels launched before.
  void write(void* to, const void* from, size_t bytes) override;
  void read(void* to, const void* from, size_t bytes) override { write(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { write(to, from, bytes); }
  void finish() override;  // an error shows with the operations
  Status load(std::span<const FilePiece> pieces) override;

 private:
  Stream stream_;
};

}  // namespace deepinfer::cuda
