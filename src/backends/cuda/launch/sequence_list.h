// Lists of sequences (ops/sequence.h) on the device.
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

// A sequence with rows; block lists point to device memory.
template <typename Sequence>
struct SequenceEntry {
  Sequence sequence;
  int64_t begin = 0;  // rows of the entries before
};

template <typename Sequence>
struct SequenceList {
  const SequenceEntry<Sequence>* entries = nullptr;  // device memory
  int count = 0;
  int64_t rows = 0;  // of all entries
};

}  // namespace deepinfer::cuda
