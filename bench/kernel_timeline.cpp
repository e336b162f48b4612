// Writes when each kernel of a program began and ended on the GPU, one line a kernel, to the file named by
// DEEPINFER_TIMELINE.  A library that the CUDA driver loads into the program:
//   CUDA_INJECTION64_PATH=libkernel_timeline.so DEEPINFER_TIMELINE=step.csv deepinfer bench gpu-model --batch 1 ...
// bench/kernel_timeline.py reads the file.  Kernels inside graphs are recorded one by one.
#include <cupti.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Kernel {
  uint64_t start, end;  // ns
  uint32_t stream;
  int grid, block, shared, registers;
  std::string name;
};

std::mutex mutex;
std::vector<Kernel>& kernels() {
  static auto* const all = new std::vector<Kernel>;  // outlives the exit handler
  return *all;
}

constexpr size_t kBufferBytes = 8 << 20;

void give_buffer(uint8_t** buffer, size_t* bytes, size_t* records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *records = 0;
}

void take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  const std::lock_guard lock(mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    kernels().push_back({kernel.start, kernel.end, kernel.streamId, kernel.gridX * kernel.gridY * kernel.gridZ,
                         kernel.blockX * kernel.blockY * kernel.blockZ,
                         static_cast<int>(kernel.staticSharedMemory + kernel.dynamicSharedMemory),
                         kernel.registersPerThread, kernel.name});
  }
  std::free(buffer);
}

void write_file() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::lock_guard lock(mutex);
  const char* const path = std::getenv("DEEPINFER_TIMELINE");
  std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) {
    std::fprintf(stderr, "kernel_timeline: DEEPINFER_TIMELINE must name a file that can be written\n");
    return;
  }
  std::sort(kernels().begin(), kernels().end(), [](const Kernel& a, const Kernel& b) { return a.start < b.start; });
  std::fprintf(file, "start_ns\tend_ns\tstream\tblocks\tthreads\tshared\tregisters\tname\n");
  for (const Kernel& k : kernels())
    std::fprintf(file, "%llu\t%llu\t%u\t%d\t%d\t%d\t%d\t%s\n", static_cast<unsigned long long>(k.start),
                 static_cast<unsigned long long>(k.end), k.stream, k.grid, k.block, k.shared, k.registers,
                 k.name.c_str());
  std::fclose(file);
}

}  // namespace

// Called by the driver.
extern "C" int InitializeInjection() {
  if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS ||
      cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS) {
    std::fprintf(stderr, "kernel_timeline: CUPTI refuses; is another profiler attached?\n");
    return 0;
  }
  std::atexit(write_file);
  return 1;
}
