#include "backends/cuda/launch/file_upload.h"

#include <cuda_runtime_api.h>

#include <array>
#include <memory>

#include "backends/cuda/launch/cuda_status.h"
#include "tensor/parallel_load.h"

namespace deepinfer::cuda {
namespace {

constexpr int kSlots = 2;  // parts of a thread in pinned memory

// What a thread has of its own: two buffers, of which one is read into while the other is copied from.
class Lane final : public PartLoader {
 public:
  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() override {
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    for (Slot& slot : slots_)
      if (slot.copied != nullptr) cudaEventDestroy(slot.copied);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  // pinned: kSlots parts.
  Status open(int device, std::byte* pinned) {
    DI_RETURN_IF_ERROR(cuda_status(cudaSetDevice(device), "GPU"));
    DI_RETURN_IF_ERROR(cuda_status(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream"));
    for (Slot& slot : slots_) {
      slot.buffer = pinned;
      pinned += kLoadPart;
      DI_RETURN_IF_ERROR(cuda_status(cudaEventCreateWithFlags(&slot.copied, cudaEventDisableTiming), "event"));
    }
    return {};
  }
  Status load(std::span<const FilePiece> part) override {
    Slot& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    DI_RETURN_IF_ERROR(cuda_status(cudaEventSynchronize(slot.copied), "copy of weights"));
    std::byte* at = slot.buffer;
    for (const FilePiece& piece : part) {
      DI_RETURN_IF_ERROR(piece.file->copy(piece.offset, {at, static_cast<size_t>(piece.bytes)}));
      DI_RETURN_IF_ERROR(
          cuda_status(cudaMemcpyAsync(piece.to, at, piece.bytes, cudaMemcpyHostToDevice, stream_), "copy of weights"));
      at += piece.bytes;
    }
    return cuda_status(cudaEventRecord(slot.copied, stream_), "copy of weights");
  }
  Status finish() override { return cuda_status(cudaStreamSynchronize(stream_), "copy of weights"); }

 private:
  struct Slot {
    std::byte* buffer = nullptr;
    cudaEvent_t copied = nullptr;
  };

  cudaStream_t stream_ = nullptr;
  std::array<Slot, kSlots> slots_;
  size_t next_ = 0;
};

struct FreePinned {
  void operator()(void* data) const { cudaFreeHost(data); }
};

}  // namespace

Status upload_files(std::span<const FilePiece> pieces) {
  uint64_t bytes = 0;
  for (const FilePiece& piece : pieces) bytes += piece.bytes;
  if (bytes == 0) return {};
  int device = 0;
  DI_RETURN_IF_ERROR(cuda_status(cudaGetDevice(&device), "GPU"));
  const int threads = load_threads(bytes);
  // In one piece: the driver makes one after the other, and slowly.
  void* data = nullptr;
  DI_RETURN_IF_ERROR(cuda_status(cudaMallocHost(&data, static_cast<uint64_t>(threads) * kSlots * kLoadPart),
                                 "pinned memory for reading weights"));
  const std::unique_ptr<void, FreePinned> pinned(data);
  return load_in_parts(pieces, threads, [&](int thread) -> Result<std::unique_ptr<PartLoader>> {
    auto lane = std::make_unique<Lane>();
    DI_RETURN_IF_ERROR(
        lane->open(device, static_cast<std::byte*>(data) + static_cast<uint64_t>(thread) * kSlots * kLoadPart));
    return std::unique_ptr<PartLoader>(std::move(lane));
  });
}

}  // namespace deepinfer::cuda
