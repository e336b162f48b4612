// WriteRing: copies from the host's memory that may change at once, by way of pinned memory used round and round.
// Owned by DeviceMemory, which gives calls their order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/status.h"

struct CUstream_st;
struct CUevent_st;

namespace deepinfer::cuda {

class WriteRing {
 public:
  WriteRing() = default;
  WriteRing(const WriteRing&) = delete;
  WriteRing& operator=(const WriteRing&) = delete;
  ~WriteRing();

  // Once, before everything else.
  Status prepare();
  // Copies to device memory, on the stream `queue`, always the same.
  Status write(std::byte* to, const std::byte* from, int64_t bytes, CUstream_st* queue);

 private:
  static constexpr int64_t kPartBytes = int64_t{4} << 20;
  static constexpr int kParts = 4;

  Status write_piece(std::byte* to, const std::byte* from, int64_t bytes, CUstream_st* queue);

  std::byte* pinned_ = nullptr;
  std::array<CUevent_st*, kParts> copied_{};  // everything that was copied from a part
  int part_ = 0;
  int64_t at_ = 0;  // of the part
};

}  // namespace deepinfer::cuda
