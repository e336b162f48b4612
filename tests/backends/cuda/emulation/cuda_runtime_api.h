// The part of the CUDA runtime that src/backends/cuda uses, on the host: device memory is a range of its own that only
// kernels and copies can touch, everything runs at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "device_functions.h"

struct CUstream_st;
struct CUevent_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;

enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorInvalidValue = 1 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum { cudaEventDisableTiming = 2, cudaStreamNonBlocking = 1 };
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor };

struct dim3 : deepinfer::emulation::Index {
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : Index{x_, y_, z_} {}
};
enum cudaLaunchAttributeID { cudaLaunchAttributeClusterDimension, cudaLaunchAttributeProgrammaticStreamSerialization };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    struct {
      unsigned x, y, z;
    } clusterDim;
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaMalloc(void** data, size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMallocHost(void** data, size_t bytes);
cudaError_t cudaFreeHost(void* data);
enum { cudaHostRegisterMapped = 2 };
cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned flags);  // kernels may read it
cudaError_t cudaHostUnregister(void* data);
cudaError_t cudaHostGetDevicePointer(void** there, void* data, unsigned flags);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);

namespace deepinfer::emulation {
// The launch's shared memory, of exactly the size it named.
std::byte* shared_memory();
cudaError_t launch(const cudaLaunchConfig_t& config, size_t argument_bytes, FunctionRef<void()> thread);
// Ends the program if a word of a kernel's arguments, whose padding is zero, is an address of the host's memory.
void refuse_host_pointers(const void* arguments, size_t bytes);
void allow_shared(const void* kernel, int bytes);
bool shared_allowed(const void* kernel, size_t bytes);
}  // namespace deepinfer::emulation

template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute, int bytes) {
  deepinfer::emulation::allow_shared(reinterpret_cast<const void*>(kernel), bytes);
  return cudaSuccess;
}

template <typename Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Arguments),
                               const Arguments& arguments) {
  if (!deepinfer::emulation::shared_allowed(reinterpret_cast<const void*>(kernel), config->dynamicSmemBytes))
    return cudaErrorInvalidValue;
#if __has_builtin(__builtin_clear_padding)
  Arguments words = arguments;  // what lay in padding before looks like addresses at times
  __builtin_clear_padding(&words);
  deepinfer::emulation::refuse_host_pointers(&words, sizeof words);
#endif
  return deepinfer::emulation::launch(*config, sizeof arguments, [&] { kernel(arguments); });
}
