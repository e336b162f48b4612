#include "backends/cuda/ceilings/file_rates.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "backends/cuda/launch/cuda_status.h"
#include "backends/cuda/launch/device_buffer.h"
#include "backends/cuda/launch/file_upload.h"
#include "tensor/mapped_file.h"
#include "tensor/parallel_load.h"

namespace deepinfer::cuda {
namespace {

constexpr uint64_t kPart = uint64_t{8} << 20;
constexpr uint64_t kPinned = uint64_t{256} << 20;
constexpr int kPasses = 3;
constexpr uint64_t kTimesOver = 8;

template <typename Pass>
Result<double> best_rate(uint64_t bytes, Pass pass) {
  double best = 0;
  for (int i = 0; i < kPasses; ++i) {
    const auto start = std::chrono::steady_clock::now();
    DI_RETURN_IF_ERROR(pass());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(bytes) / seconds.count());
  }
  return best;
}

struct FreePinned {
  void operator()(std::byte* data) const { cudaFreeHost(data); }
};
using Pinned = std::unique_ptr<std::byte, FreePinned>;

Result<Pinned> allocate_pinned(uint64_t bytes) {
  void* data = nullptr;
  DI_RETURN_IF_ERROR(cuda_status(cudaMallocHost(&data, bytes), "pinned memory"));
  return Pinned(static_cast<std::byte*>(data));
}

// Each thread has a part of the memory of its own and takes the next part of the file.
Status read_all(const MappedFile& file, std::byte* pinned, int threads) {
  std::atomic<uint64_t> next{0};
  std::vector<Status> results(static_cast<size_t>(threads));
  {
    std::vector<std::jthread> running;
    for (int t = 0; t < threads; ++t)
      running.emplace_back([&, t] {
        std::byte* const mine = pinned + static_cast<uint64_t>(t) * kPart;
        for (uint64_t at = next.fetch_add(kPart); at < file.size(); at = next.fetch_add(kPart)) {
          const uint64_t bytes = std::min(kPart, file.size() - at);
          results[static_cast<size_t>(t)] = file.copy(at, {mine, static_cast<size_t>(bytes)});
          if (!results[static_cast<size_t>(t)].ok()) return;
        }
      });
  }
  for (const Status& result : results) DI_RETURN_IF_ERROR(result);
  return {};
}

}  // namespace

Result<FileRates> measure_file(const std::string& path) {
  DI_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  if (file.size() == 0) return invalid_argument(path + ": is empty; allowed: a file with bytes to read");
  DI_ASSIGN_OR_RETURN(const DeviceBuffer device, DeviceBuffer::allocate(static_cast<int64_t>(file.size())));
  FileRates rates;
  rates.threads = load_threads(file.size());
  {
    DI_ASSIGN_OR_RETURN(const Pinned pinned,
                        allocate_pinned(std::max(kPinned, static_cast<uint64_t>(rates.threads) * kPart)));
    DI_ASSIGN_OR_RETURN(rates.read,
                        best_rate(file.size(), [&] { return read_all(file, pinned.get(), rates.threads); }));
    const uint64_t bytes = std::min(kPinned, file.size());
    DI_ASSIGN_OR_RETURN(rates.copy, best_rate(bytes, [&] {
                          return cuda_status(cudaMemcpy(device.data(), pinned.get(), bytes, cudaMemcpyHostToDevice),
                                             "copy from pinned memory");
                        }));
  }
  const FilePiece whole{&file, 0, file.size(), device.data()};
  DI_ASSIGN_OR_RETURN(rates.upload, best_rate(file.size(), [&] { return upload_files({&whole, 1}); }));
  const std::vector<FilePiece> again(kTimesOver, whole);
  DI_ASSIGN_OR_RETURN(rates.steady, best_rate(kTimesOver * file.size(), [&] { return upload_files(again); }));
  return rates;
}

}  // namespace deepinfer::cuda
