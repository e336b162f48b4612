#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <unordered_map>

#include "base/check.h"
#include "cuda_runtime_api.h"

namespace deepinfer::emulation {
namespace {

constexpr size_t kArena = size_t{64} << 30;  // of addresses; memory comes with the first touch
constexpr int kMostShared = 99 * 1024;       // of the smallest GPU that is supported

// Device memory: closed but for kernels and copies.
class Arena {
 public:
  Arena() {
    void* data = mmap(nullptr, kArena, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    DI_CHECK(data != MAP_FAILED, "addresses for device memory");
    data_ = static_cast<std::byte*>(data);
  }
  bool has(const void* at) const { return at >= data_ && at < data_ + kArena; }
  void open() { protect(PROT_READ | PROT_WRITE); }
  void close() { protect(PROT_NONE); }

  void* allocate(size_t bytes) {
    const size_t room = (bytes + 511) / 256 * 256;  // a gap behind each
    if (used_ + room > kArena) return nullptr;
    std::byte* at = data_ + used_;
    used_ += room;
    ++live_;
    return at;
  }
  void release(void* data) {
    if (data == nullptr) return;
    DI_CHECK(has(data), "device memory is freed as such");
    if (--live_ > 0) return;
    madvise(data_, used_, MADV_DONTNEED);
    used_ = 0;
  }
  // Whole pages of zeros take no memory.
  void clear(std::byte* data, size_t bytes) {
    constexpr size_t kPage = 4096;
    const size_t before = std::min(bytes, (kPage - (data - data_) % kPage) % kPage), pages = (bytes - before) / kPage;
    if (pages > 0) madvise(data + before, pages * kPage, MADV_DONTNEED);
    std::memset(data, 0, before);
    std::memset(data + before + pages * kPage, 0, bytes - before - pages * kPage);
  }

 private:
  void protect(int how) { DI_CHECK(mprotect(data_, kArena, how) == 0, "device memory opens and closes"); }

  std::byte* data_ = nullptr;
  size_t used_ = 0;
  int live_ = 0;
};

// Memory of the host that kernels may read, by its begin, with its end.
std::map<uintptr_t, uintptr_t>& reachable() {
  static std::map<uintptr_t, uintptr_t> ranges;
  return ranges;
}
bool is_reachable(uintptr_t address) {
  const auto after = reachable().upper_bound(address);
  return after != reachable().begin() && address < std::prev(after)->second;
}

std::mutex one_call;  // weights are loaded by several threads

Arena& arena() {
  static Arena arena;
  return arena;
}

std::byte* current_shared = nullptr;
std::unordered_map<const void*, int>& allowed() {
  static std::unordered_map<const void*, int> allowed;
  return allowed;
}

bool is_mapped(uintptr_t address) {
  return msync(reinterpret_cast<void*>(address / 4096 * 4096), 4096, MS_ASYNC) == 0;
}

}  // namespace

std::byte* shared_memory() {
  return current_shared;
}

void allow_shared(const void* kernel, int bytes) {
  DI_CHECK(bytes <= kMostShared, "shared memory of the smallest GPU");
  allowed()[kernel] = bytes;
}

bool shared_allowed(const void* kernel, size_t bytes) {
  const auto found = allowed().find(kernel);
  return bytes <= 48 * 1024 || (found != allowed().end() && static_cast<size_t>(found->second) >= bytes);
}

void refuse_host_pointers(const void* arguments, size_t bytes) {
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    uintptr_t word;
    std::memcpy(&word, static_cast<const std::byte*>(arguments) + i, 8);
    if (word < 0x500000000000u || word > 0x7fffffffffffu || arena().has(reinterpret_cast<const void*>(word))) continue;
    if (is_reachable(word) || !is_mapped(word)) continue;
    std::fprintf(stderr, "argument byte %zu of a kernel: %zx is not device memory\n", i, static_cast<size_t>(word));
    std::abort();
  }
}

cudaError_t launch(const cudaLaunchConfig_t& config, size_t argument_bytes, FunctionRef<void()> thread) {
  const dim3 grid = config.gridDim;
  if (grid.y > 65535 || grid.z > 65535 || argument_bytes > 4096) return cudaErrorInvalidValue;
  static uint64_t order = 1;
  const size_t shared = (config.dynamicSmemBytes + 15) / 16 * 16;
  current_shared = static_cast<std::byte*>(std::aligned_alloc(16, shared + 16));
  arena().open();
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        std::memset(current_shared, 0xff, config.dynamicSmemBytes);
        order = order * 6364136223846793005u + 1442695040888963407u;
        run_block(static_cast<int>(config.blockDim.x), {x, y, z}, grid, order >> 33, thread);
      }
  arena().close();
  std::free(current_shared);
  current_shared = nullptr;
  return cudaSuccess;
}

}  // namespace deepinfer::emulation

using namespace deepinfer::emulation;  // NOLINT: the functions below are the runtime's

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess                 ? "cudaSuccess"
         : error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
                                              : "cudaErrorInvalidValue";
}
const char* cudaGetErrorString(cudaError_t error) {
  return cudaGetErrorName(error);
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 8 : 0;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** data, size_t bytes) {
  const std::scoped_lock lock(one_call);
  *data = arena().allocate(bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  const std::scoped_lock lock(one_call);
  arena().open();
  arena().release(data);
  arena().close();
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = size_t{1} << 40;
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t bytes) {
  *data = std::malloc(bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned flags) {
  DI_CHECK(flags == cudaHostRegisterMapped, "memory is registered for kernels");
  const std::scoped_lock lock(one_call);
  const auto begin = reinterpret_cast<uintptr_t>(data);
  reachable()[begin] = begin + bytes;
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** there, void* data, unsigned) {
  *there = data;
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* data) {
  const std::scoped_lock lock(one_call);
  return reachable().erase(reinterpret_cast<uintptr_t>(data)) == 1 ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  const std::scoped_lock lock(one_call);
  if (arena().has(to) != (kind != cudaMemcpyDeviceToHost) || arena().has(from) != (kind != cudaMemcpyHostToDevice))
    return cudaErrorInvalidValue;
  arena().open();
  std::memcpy(to, from, bytes);
  arena().close();
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  const std::scoped_lock lock(one_call);
  if (!arena().has(to)) return cudaErrorInvalidValue;
  arena().open();
  DI_CHECK(value == 0, "memory is set to zeros only");
  arena().clear(static_cast<std::byte*>(to), bytes);
  arena().close();
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(1);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(1);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) {
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return cudaSuccess;
}
