#include "tensor_core_products.h"

#include <type_traits>

#include "backends/cuda/ceilings/random_words.cuh"
#include "backends/cuda/device/bulk_copy.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/device/wgmma.cuh"

namespace deepinfer::cuda {
namespace {

constexpr int kRows = 64;  // of an instruction's M side

// Copies `rows` rows of StageK columns into shared memory as core matrices (wgmma.cuh): 8 rows of 16 bytes each.
template <int StageK>
__device__ void stage(const uint16_t* from, int rows, std::byte* to) {
  constexpr int kPieces = StageK / 8;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kPieces; i += 128) {
    const int row = i / kPieces, piece = i % kPieces;
    const uint4 data = *reinterpret_cast<const uint4*>(from + static_cast<int64_t>(row) * kProductK + piece * 8);
    *reinterpret_cast<uint4*>(to + ((row / 8) * kPieces + piece) * 128 + (row % 8) * 16) = data;
  }
}

// m_side: 64 rows; n_side: rows in groups of N.  out(m, n) at m * m_stride + n * n_stride.
template <int N, int StageK, bool FromRegisters>
__global__ void __launch_bounds__(128) by_wgmma(const uint16_t* m_side, int64_t m_tiles, const uint16_t* n_side,
                                                int64_t n_tiles, float* out, int64_t m_stride, int64_t n_stride) {
  __shared__ __align__(128) std::byte a_tile[kRows * StageK * 2];
  __shared__ __align__(128) std::byte b_tile[N * StageK * 2];
  constexpr uint32_t kRowStride = StageK / 8 * 128;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int64_t tile = blockIdx.x; tile < m_tiles * n_tiles; tile += gridDim.x) {
    const int64_t m0 = tile / n_tiles * kRows, n0 = tile % n_tiles * N;
    float d[N / 2] = {};
    for (int k0 = 0; k0 < kProductK; k0 += StageK) {
      __syncthreads();
      stage<StageK>(m_side + m0 * kProductK + k0, kRows, a_tile);
      stage<StageK>(n_side + n0 * kProductK + k0, N, b_tile);
      fence_async_proxy();
      __syncthreads();
      uint32_t a[StageK / 16][4];
      if constexpr (FromRegisters) {
        for (int s = 0; s < StageK / 16; ++s)
          for (int h = 0; h < 2; ++h)
            for (int i = 0; i < 2; ++i) {
              const int64_t row = m0 + 16 * warp + lane / 4 + 8 * i;
              const int64_t column = k0 + 16 * s + 8 * h + 2 * (lane % 4);
              a[s][2 * h + i] = *reinterpret_cast<const uint32_t*>(m_side + row * kProductK + column);
            }
      }
      wgmma_fence();
#pragma unroll
      for (int s = 0; s < StageK / 16; ++s) {
        const uint64_t b = matrix_descriptor(shared_address(b_tile) + s * 256, 128, kRowStride);
        if constexpr (FromRegisters) {
          WgmmaBf16<N>::multiply_registers(d, a[s], b, true);
        } else {
          WgmmaBf16<N>::multiply(d, matrix_descriptor(shared_address(a_tile) + s * 256, 128, kRowStride), b, true);
        }
      }
      wgmma_commit();
      wgmma_wait<0>();
    }
#pragma unroll
    for (int r = 0; r < N / 2; ++r) {
      const int64_t m = m0 + 16 * warp + lane / 4 + 8 * (r % 4 / 2), n = n0 + 8 * (r / 4) + 2 * (lane % 4) + r % 2;
      out[m * m_stride + n * n_stride] = d[r];
    }
  }
}

// mma.sync m16n8k16; a warp a tile.
__global__ void __launch_bounds__(32) by_mma_sync(const uint16_t* m_side, int64_t m_tiles, const uint16_t* n_side,
                                                  int64_t n_tiles, float* out, int64_t m_stride, int64_t n_stride) {
  const int lane = static_cast<int>(threadIdx.x);
  const auto word = [](const uint16_t* p) { return *reinterpret_cast<const uint32_t*>(p); };
  for (int64_t tile = blockIdx.x; tile < m_tiles * n_tiles; tile += gridDim.x) {
    const int64_t m0 = tile / n_tiles * 16, n0 = tile % n_tiles * 8;
    float d[4] = {};
    for (int k0 = 0; k0 < kProductK; k0 += 16) {
      const uint16_t* a = m_side + (m0 + lane / 4) * kProductK + k0 + 2 * (lane % 4);
      const uint16_t* b = n_side + (n0 + lane / 4) * kProductK + k0 + 2 * (lane % 4);
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};\n"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(word(a)), "r"(word(a + 8 * kProductK)), "r"(word(a + 8)), "r"(word(a + 8 * kProductK + 8)),
            "r"(word(b)), "r"(word(b + 8)));
    }
    for (int r = 0; r < 4; ++r) {
      const int64_t m = m0 + lane / 4 + 8 * (r / 2), n = n0 + 2 * (lane % 4) + r % 2;
      out[m * m_stride + n * n_stride] = d[r];
    }
  }
}

template <int N, int StageK, bool FromRegisters>
void weights_are_m(const uint16_t* weights, const uint16_t* tokens, int64_t rows, int blocks, float* out) {
  by_wgmma<N, StageK, FromRegisters>
      <<<blocks, 128>>>(weights, kProductWeights / kRows, tokens, rows / N, out, 1, kProductWeights);
}
template <int N, int StageK, bool FromRegisters>
void tokens_are_m(const uint16_t* weights, const uint16_t* tokens, int64_t rows, int blocks, float* out) {
  by_wgmma<N, StageK, FromRegisters>
      <<<blocks, 128>>>(tokens, rows / kRows, weights, kProductWeights / N, out, kProductWeights, 1);
}
void mma_weights_are_m(const uint16_t* weights, const uint16_t* tokens, int64_t rows, int blocks, float* out) {
  by_mma_sync<<<blocks * 8, 32>>>(weights, kProductWeights / 16, tokens, rows / 8, out, 1, kProductWeights);
}
void mma_tokens_are_m(const uint16_t* weights, const uint16_t* tokens, int64_t rows, int blocks, float* out) {
  by_mma_sync<<<blocks * 8, 32>>>(tokens, rows / 16, weights, kProductWeights / 8, out, kProductWeights, 1);
}

template <int N, int StageK>
void add_ways(std::vector<ProductWay>& ways) {
  const std::string shape = "N " + std::to_string(N) + ", K staged by " + std::to_string(StageK);
  ways.push_back({"weights as M from shared memory, " + shape, weights_are_m<N, StageK, false>});
  ways.push_back({"weights as M from registers, " + shape, weights_are_m<N, StageK, true>});
  if constexpr (N <= kProductWeights) {
    ways.push_back({"tokens as M from shared memory, " + shape, tokens_are_m<N, StageK, false>});
    ways.push_back({"tokens as M from registers, " + shape, tokens_are_m<N, StageK, true>});
  }
}

__device__ uint16_t bf16_of(uint32_t bits, int least_exponent, int exponents) {
  const uint32_t exponent = 127 + least_exponent + bits % static_cast<uint32_t>(exponents);
  return static_cast<uint16_t>((bits >> 31) << 15 | exponent << 7 | ((bits >> 16) & 0x7f));
}
// A finite e4m3 number of 2^scale: its mantissa has 3 bits.
__device__ uint16_t e4m3_scaled(uint32_t bits, int scale) {
  return static_cast<uint16_t>((bits >> 31) << 15 | (127 - 6 + scale + (bits & 0xf) % 15) << 7 | ((bits >> 16) & 7) << 4);
}

__global__ void make_tokens(uint16_t* tokens, int64_t rows) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x)
    for (int k = static_cast<int>(threadIdx.x); k < kProductK; k += static_cast<int>(blockDim.x)) {
      const uint64_t index = static_cast<uint64_t>(row) * kProductK + static_cast<uint64_t>(k);
      const uint32_t bits = hashed(index), scale = hashed(index / 32 + (uint64_t{1} << 60));
      uint16_t value = 0;
      switch (row % kRowKinds) {
        case 0:  // as a quantised activation
          value = e4m3_scaled(bits, -static_cast<int>(scale % 9));
          break;
        case 1:  // of all sizes around one
          value = bf16_of(bits, -20, 40);
          break;
        case 2: {  // each pair cancels where the weights of the pair are equal, but for a small rest
          const uint16_t first = bf16_of(hashed(index / 2), -4, 24);
          value = k % 2 == 0 ? first : static_cast<uint16_t>(first ^ 0x8000);
          if (k % 256 == 77) value = bf16_of(bits, -24, 4);
          break;
        }
        case 3:  // subnormal products
          value = static_cast<uint16_t>((bits >> 31) << 15 | (bits & (bits & 0x100 ? 0x7f : 0x3ff)));
          break;
        case 4:  // the largest e4m3 number, of either sign
          value = static_cast<uint16_t>((bits >> 31) << 15 | (127 + 8) << 7 | 0x60);
          break;
        default:  // one giant among dwarfs
          value = k % 128 == static_cast<int>(scale % 128) ? bf16_of(bits, 30, 10) : bf16_of(bits, -30, 20);
      }
      tokens[index] = value;
    }
}

__global__ void make_weights(uint16_t* weights) {
  const int row = static_cast<int>(blockIdx.x);
  for (int k = static_cast<int>(threadIdx.x); k < kProductK; k += static_cast<int>(blockDim.x)) {
    const uint64_t index = (uint64_t{1} << 50) + static_cast<uint64_t>(row) * kProductK + static_cast<uint64_t>(k);
    const uint32_t bits = hashed(index);
    uint16_t value = 0;
    switch (row % 4) {
      case 0:  // as a quantised weight
        value = e4m3_scaled(bits, -9);
        break;
      case 1:  // equal in pairs
        value = e4m3_scaled(hashed(index / 2), -5);
        break;
      case 2:
        value = static_cast<uint16_t>((bits >> 31) << 15 | (127 + 8) << 7 | 0x60);
        break;
      default:
        value = bf16_of(bits, -20, 30);
    }
    weights[row * kProductK + k] = value;
  }
}

__global__ void compare(const uint32_t* a, const uint32_t* b, int64_t rows, unsigned long long* counts) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t at = row * kProductWeights + threadIdx.x;
    if (a[at] != b[at]) atomicAdd(&counts[row % kRowKinds], 1ull);
  }
}

}  // namespace

const std::vector<ProductWay>& product_ways() {
  static const std::vector<ProductWay> kWays = [] {
    std::vector<ProductWay> ways;
    add_ways<8, 64>(ways);
    add_ways<8, 128>(ways);
    add_ways<16, 64>(ways);
    add_ways<32, 64>(ways);
    add_ways<64, 64>(ways);
    add_ways<64, 16>(ways);
    add_ways<128, 32>(ways);
    add_ways<256, 64>(ways);
    ways.push_back({"mma.sync, weights as M", mma_weights_are_m});
    ways.push_back({"mma.sync, tokens as M", mma_tokens_are_m});
    return ways;
  }();
  return kWays;
}

const char* row_kind_name(int kind) {
  constexpr const char* kNames[kRowKinds] = {"quantised", "around one",    "cancelling",
                                             "subnormal", "plus-minus 448", "one giant"};
  return kNames[kind];
}

void fill_operands(uint16_t* weights, uint16_t* tokens, int64_t rows) {
  make_weights<<<kProductWeights, 256>>>(weights);
  make_tokens<<<4096, 256>>>(tokens, rows);
}

void count_differences(const float* a, const float* b, int64_t rows, unsigned long long* counts) {
  compare<<<4096, kProductWeights>>>(reinterpret_cast<const uint32_t*>(a), reinterpret_cast<const uint32_t*>(b), rows,
                                     counts);
}

}  // namespace deepinfer::cuda
