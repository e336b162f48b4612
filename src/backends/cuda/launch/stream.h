// Stream: what kernels are queued on.  Plain C++: headers that benchmarks include name it without CUDA's.
#pragma once

struct CUstream_st;

namespace deepinfer::cuda {

using Stream = CUstream_st*;  // cudaStream_t; nullptr: the default stream

}  // namespace deepinfer::cuda
