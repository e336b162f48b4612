// Cached state of a sequence for tests: records in blocks that lie apart, and a ring whose unwritten slots are poison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/sequence.h"

namespace deepinfer {

// Full-history records in blocks of a few rows, each block its own allocation.
class BlockRecords {
 public:
  BlockRecords(int64_t rows, int64_t record_bytes, int64_t rows_per_block = 5)
      : rows_per_block_(rows_per_block), record_bytes_(record_bytes) {
    for (int64_t j = 0; j < rows; j += rows_per_block) {
      storage_.emplace_back(static_cast<size_t>(rows_per_block * record_bytes), std::byte{0xFF});
    }
    for (auto& block : storage_) blocks_.push_back(block.data());
  }

  BlockList list() const { return {blocks_.data(), rows_per_block_, record_bytes_, static_cast<int64_t>(blocks_.size())}; }
  uint8_t* record(int64_t j) { return reinterpret_cast<uint8_t*>(list().record(j)); }

 private:
  int64_t rows_per_block_;
  int64_t record_bytes_;
  std::vector<std::vector<std::byte>> storage_;
  std::vector<std::byte*> blocks_;
};

class RingRecords {
 public:
  RingRecords(int64_t slots, int64_t record_bytes)
      : slots_(slots),
        record_bytes_(record_bytes),
        bytes_(static_cast<size_t>(slots * record_bytes), std::byte{0xFF}) {}

  Ring ring() { return {bytes_.data(), slots_, record_bytes_}; }
  uint8_t* record(int64_t position) { return reinterpret_cast<uint8_t*>(ring().record(position)); }

 private:
  int64_t slots_;
  int64_t record_bytes_;
  std::vector<std::byte> bytes_;
};

}  // namespace deepinfer
