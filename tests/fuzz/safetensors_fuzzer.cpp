// Any bytes as the start of a weight file: no crash, and the reader agrees with an independent reading of the rules.
// The last byte, where there is one, lengthens the file beyond the bytes given, so that tensor data needs no input.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "../tensor/safetensors_checker.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> start(reinterpret_cast<const std::byte*>(data), size);
  for (const uint64_t file_size : {uint64_t{size}, uint64_t{size} + (size > 0 ? data[size - 1] : 0)}) {
    const std::string problem = deepinfer::disagreement(start, file_size);
    if (problem.empty()) continue;
    std::fprintf(stderr, "%s\n", problem.c_str());
    std::abort();
  }
  return 0;
}
