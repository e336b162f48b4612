#include "backends/cuda/launch/file_upload.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "backends/cuda/launch/cuda_status.h"
#include "base/out_of_memory.h"
#include "base/topology.h"

namespace deepinfer::cuda {
namespace {

constexpr uint64_t kPart = uint64_t{2} << 20;  // read and copied at once
constexpr int kSlots = 2;                      // parts of a thread in pinned memory
constexpr int kMostThreads = 16;
constexpr uint64_t kBytesForAThread = uint64_t{128} << 20;  // less does not pay for its pinned memory

// Neighbouring pieces that fill a part, [first, last) of the sorted list.
struct Part {
  size_t first, last;
};

// Pieces no longer than a part, in the order of their files.
std::vector<FilePiece> in_file_order(std::span<const FilePiece> pieces) {
  std::vector<FilePiece> list;
  for (const FilePiece& piece : pieces) {
    for (uint64_t done = 0; done < piece.bytes; done += kPart)
      list.push_back({piece.file, piece.offset + done, std::min(kPart, piece.bytes - done), piece.to + done});
  }
  std::sort(list.begin(), list.end(), [](const FilePiece& a, const FilePiece& b) {
    return a.file != b.file ? a.file->path() < b.file->path() : a.offset < b.offset;
  });
  return list;
}

std::vector<Part> parts_of(const std::vector<FilePiece>& list) {
  std::vector<Part> parts;
  uint64_t bytes = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (parts.empty() || bytes + list[i].bytes > kPart) {
      parts.push_back({i, i});
      bytes = 0;
    }
    parts.back().last = i + 1;
    bytes += list[i].bytes;
  }
  return parts;
}

// What a thread has of its own: two buffers, of which one is read into while the other is copied from.
class Lane {
 public:
  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() {
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
      pinned += kPart;
      DI_RETURN_IF_ERROR(cuda_status(cudaEventCreateWithFlags(&slot.copied, cudaEventDisableTiming), "event"));
    }
    return {};
  }
  Status load(std::span<const FilePiece> part) {
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
  Status finish() { return cuda_status(cudaStreamSynchronize(stream_), "copy of weights"); }

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

Status upload(std::span<const FilePiece> pieces) {
  const std::vector<FilePiece> list = in_file_order(pieces);
  const std::vector<Part> parts = parts_of(list);
  uint64_t bytes = 0;
  for (const FilePiece& piece : list) bytes += piece.bytes;
  int device = 0;
  DI_RETURN_IF_ERROR(cuda_status(cudaGetDevice(&device), "GPU"));
  const int wanted = std::min(upload_threads(bytes), static_cast<int>(parts.size()));
  if (wanted == 0) return {};
  // In one piece: the driver makes one after the other, and slowly.
  void* data = nullptr;
  DI_RETURN_IF_ERROR(cuda_status(cudaMallocHost(&data, static_cast<uint64_t>(wanted) * kSlots * kPart),
                                 "pinned memory for reading weights"));
  const std::unique_ptr<void, FreePinned> pinned(data);

  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  Status first;  // error
  const auto work = [&](int thread) {
    const Status status = [&]() -> Status {
      Lane lane;
      DI_RETURN_IF_ERROR(
          lane.open(device, static_cast<std::byte*>(data) + static_cast<uint64_t>(thread) * kSlots * kPart));
      for (size_t part = next++; part < parts.size() && !failed; part = next++)
        DI_RETURN_IF_ERROR(lane.load(std::span(list).subspan(parts[part].first, parts[part].last - parts[part].first)));
      return lane.finish();
    }();
    if (status.ok()) return;
    failed = true;
    const std::scoped_lock lock(mutex);
    if (first.ok()) first = status;
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<size_t>(wanted - 1));
    try {
      while (std::ssize(threads) < wanted - 1) threads.emplace_back(work, 1 + static_cast<int>(std::ssize(threads)));
    } catch (const std::system_error&) {
      // The threads that there are do it.
    }
    work(0);
  }
  return first;
}

}  // namespace

int upload_threads(uint64_t bytes) {
  const uint64_t worth = 1 + bytes / kBytesForAThread;
  const int most = std::min(kMostThreads, std::max(1, read_topology().usable_threads()));
  return static_cast<int>(std::min<uint64_t>(worth, static_cast<uint64_t>(most)));
}

Status upload_files(std::span<const FilePiece> pieces) {
  return or_out_of_memory([] { return std::string("the list of weights to read"); }, [&] { return upload(pieces); });
}

}  // namespace deepinfer::cuda
