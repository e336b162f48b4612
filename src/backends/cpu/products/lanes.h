// The lanes and weight decoders of the instruction set that this source is compiled for (CMakeLists.txt); kernels only.
//
// Kernel sources are compiled once per instruction set, in a namespace of their own, and include no C++ library
// templates: no inline function built with AVX-512 flags can then stand in for the same function of a lesser path.
#pragma once

#include "backends/cpu/steps/simd.h"

#if defined(__AVX512F__)
#include "backends/cpu/products/lanes_avx512.h"
#else
#include "backends/cpu/products/lanes_avx2.h"
#endif
