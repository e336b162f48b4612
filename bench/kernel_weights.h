// Random weights of any format out of one block of memory: each call takes the next bytes, around and around.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "ops/linear.h"
#include "tensor/buffer.h"

namespace deepinfer::bench {

class RotatingWeights {
 public:
  // Filled by the pool's threads.
  static Result<RotatingWeights> make(uint64_t bytes, ThreadPool& pool);

  LinearWeight next(LinearWeight::Format format, int64_t n, int64_t k);
  uint64_t bytes() const { return codes_.size(); }

 private:
  RotatingWeights(Buffer codes, Buffer scales) : codes_(std::move(codes)), scales_(std::move(scales)) {}
  static const std::byte* take(const Buffer& buffer, uint64_t bytes, uint64_t& at);

  Buffer codes_;   // valid in every format: as bf16 values of size 2^-7 to 2^-4
  Buffer scales_;  // 1/16 of the codes: as many as FP4 needs
  uint64_t next_code_ = 0, next_scale_ = 0;
};

}  // namespace deepinfer::bench
