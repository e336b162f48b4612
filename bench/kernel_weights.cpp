#include "bench/kernel_weights.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace deepinfer::bench {
namespace {

// splitmix64: one word of noise per index.
uint64_t noise(uint64_t index) {
  uint64_t z = (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Sets every 8 bytes to (noise & mask) | bits.
void fill(Buffer& buffer, uint64_t mask, uint64_t bits, ThreadPool& pool) {
  constexpr uint64_t kPiece = uint64_t{4} << 20;
  const uint64_t words = buffer.size() / 8;
  auto* data = buffer.as<uint64_t>();
  pool.parallel_for(static_cast<int64_t>((words + kPiece - 1) / kPiece), [&](int64_t piece, int) {
    const uint64_t begin = static_cast<uint64_t>(piece) * kPiece, end = std::min(words, begin + kPiece);
    for (uint64_t i = begin; i < end; ++i) data[i] = (noise(i) & mask) | bits;
  });
}

}  // namespace

Result<RotatingWeights> RotatingWeights::make(uint64_t bytes, ThreadPool& pool) {
  DI_ASSIGN_OR_RETURN(Buffer codes, Buffer::allocate(bytes / 64 * 64));
  DI_ASSIGN_OR_RETURN(Buffer scales, Buffer::allocate(bytes / 16 / 64 * 64 + 64));
  // bf16: sign, exponents 120 to 123, fraction.  As e4m3 and e2m1 the same bytes are finite values of both signs.
  fill(codes, 0x81FF81FF81FF81FFu, 0x3C003C003C003C00u, pool);
  fill(scales, 0x0303030303030303u, 0x7070707070707070u, pool);  // 2^-15 to 2^-12
  return RotatingWeights(std::move(codes), std::move(scales));
}

const std::byte* RotatingWeights::take(const Buffer& buffer, uint64_t bytes, uint64_t& at) {
  DI_CHECK(bytes <= buffer.size(), "a weight is larger than the memory for weights");
  if (at + bytes > buffer.size()) at = 0;
  const std::byte* data = buffer.data() + at;
  at += (bytes + 63) / 64 * 64;
  return data;
}

LinearWeight RotatingWeights::next(LinearWeight::Format format, int64_t n, int64_t k) {
  LinearWeight weight{.format = format, .n = n, .k = k, .data = nullptr, .scale = nullptr};
  const bool bf16 = format == LinearWeight::Format::kBf16, fp8 = format == LinearWeight::Format::kFp8;
  const int64_t codes = bf16 ? 2 * n * k : fp8 ? n * k : n * k / 2;
  weight.data = take(codes_, static_cast<uint64_t>(codes), next_code_);
  if (!bf16) {
    const int64_t scales = (fp8 ? (n + 31) / 32 : n) * (k / 32);
    weight.scale = reinterpret_cast<const uint8_t*>(take(scales_, static_cast<uint64_t>(scales), next_scale_));
  }
  return weight;
}

}  // namespace deepinfer::bench
