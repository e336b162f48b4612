// How operations see the cached state of sequences and the rows of a step.
//
// A step holds rows of one or more sequences.  The rows of a sequence are consecutive in every activation matrix and
// have consecutive positions.  Cached records live either in blocks of a fixed number of records (full history) or in a
// ring (sliding window, running state); an operation never sees who owns them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace deepinfer {

// Full-history records of one sequence and one cache group: record j is
// blocks[j / rows_per_block] + (j % rows_per_block) * record_bytes.
struct BlockList {
  std::byte* const* blocks = nullptr;
  int64_t rows_per_block = 0;
  int64_t record_bytes = 0;
  int64_t count = 0;  // blocks; looked at where memory() is not the host's, as the list goes there

  std::byte* record(int64_t j) const { return blocks[j / rows_per_block] + (j % rows_per_block) * record_bytes; }
};

// Sliding-window records: the record of position p is data + (p % slots) * record_bytes.
struct Ring {
  std::byte* data = nullptr;
  int64_t slots = 0;
  int64_t record_bytes = 0;

  std::byte* record(int64_t position) const { return data + (position % slots) * record_bytes; }
};

}  // namespace deepinfer
