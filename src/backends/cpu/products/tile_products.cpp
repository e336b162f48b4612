// Matrix products with AMX: TDPBF16PS on 16 weight rows x 32 columns (tile A, decoded just before) times 32 columns x
// up to 16 activation rows (tile B, packed once a call).  Every sum is one chain of tile products along K, for one row
// of activations as for hundreds; a sum that leaves the tile registers between runs of columns does so unrounded.
//
// TDPBF16PS reads subnormal bf16 as zero and gives zero for a subnormal fp32 sum.  Neither occurs below 2^-117:
// activations and FP8/FP4 weights carry their scales as exponents (tile_decode.h), and only a bf16 weight below 2^-126
// would be lost.
#include "backends/cpu/products/tile_products.h"

namespace deepinfer::cpu::amx {
namespace {

constexpr int64_t kLongRun = 512;  // columns decoded together; multiples of every step
constexpr int64_t kShortRun = 256;
constexpr int64_t kCElements = kTileRows * kTileRows;
// Tile registers: 0-3 sums, 4 and 5 weights, 6 and 7 activations.

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// Sums c0 c1 c2 c3 are [weight tile][activation tile], or four weight tiles with one activation tile.
void configure(int first_rows, int second_rows, bool pairs) {
  TileConfig config;
  const auto set = [&config](int tile, int columns) {
    config.rows[tile] = 16;
    config.bytes_per_row[tile] = static_cast<uint16_t>(4 * columns);
  };
  for (int c = 0; c < 4; ++c) set(c, pairs && c % 2 == 1 ? second_rows : first_rows);
  set(4, 16);
  set(5, 16);
  set(6, first_rows);
  set(7, pairs ? second_rows : first_rows);
  __asm__ volatile("" ::"r"(&config) : "memory");  // the intrinsic names only the first bytes as its input
  _tile_loadconfig(&config);
}

// The compiler does not know what the tile instructions read and write.
DI_TILE void memory_barrier() {
  __asm__ volatile("" ::: "memory");
}

// One weight tile each for up to four C tiles, one B tile: at most 16 activation rows.
template <int kWeightTiles>
DI_TILE void run_column(const uint16_t* a, const uint16_t* b, int64_t tiles, int64_t b_rows) {
  const int64_t a_next = tiles * kTileElements;
  for (int64_t t = 0; t < tiles; ++t, a += kTileElements, b += kTileColumns * b_rows) {
    _tile_loadd(6, b, 4 * b_rows);
    _tile_loadd(4, a, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kWeightTiles > 1) {
      _tile_loadd(5, a + a_next, 64);
      _tile_dpbf16ps(1, 5, 6);
    }
    if constexpr (kWeightTiles > 2) {
      _tile_loadd(4, a + 2 * a_next, 64);
      _tile_dpbf16ps(2, 4, 6);
    }
    if constexpr (kWeightTiles > 3) {
      _tile_loadd(5, a + 3 * a_next, 64);
      _tile_dpbf16ps(3, 5, 6);
    }
  }
}

// Two weight tiles times two activation tiles.
DI_TILE void run_square(const uint16_t* a, const uint16_t* b0, const uint16_t* b1, int64_t tiles, int64_t b1_rows) {
  const int64_t a_next = tiles * kTileElements;
  for (int64_t t = 0; t < tiles; ++t) {
    _tile_loadd(4, a + t * kTileElements, 64);
    _tile_loadd(6, b0 + t * kTileElements, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b1 + t * kTileColumns * b1_rows, 4 * b1_rows);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + a_next + t * kTileElements, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

DI_TILE void zero_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

DI_TILE void store_sums(float* c) {
  _tile_stored(0, c, 64);
  _tile_stored(1, c + kCElements, 64);
  _tile_stored(2, c + 2 * kCElements, 64);
  _tile_stored(3, c + 3 * kCElements, 64);
  memory_barrier();
}

DI_TILE void load_sums(const float* c) {
  memory_barrier();
  _tile_loadd(0, c, 64);
  _tile_loadd(1, c + kCElements, 64);
  _tile_loadd(2, c + 2 * kCElements, 64);
  _tile_loadd(3, c + 3 * kCElements, 64);
}

DI_TILE int at_most_16(int64_t left) {
  return static_cast<int>(left < kTileRows ? left : kTileRows);
}

// At most 16 activation rows: four weight tiles at a time keep four chains of tile products going.
void multiply_few(const WeightBlock& weight, const uint16_t* packed, int rows, float* out, int64_t stride, uint16_t* a,
                  float* c) {
  constexpr int64_t kGroup = 4 * kTileRows;
  const int64_t columns = packed_columns(weight.format, weight.k);
  configure(rows, rows, false);
  for (int64_t n = 0; n < weight.outputs; n += kGroup) {
    const int64_t outputs = weight.outputs - n < kGroup ? weight.outputs - n : kGroup;
    const int64_t weight_tiles = (outputs + kTileRows - 1) / kTileRows;
    zero_sums();
    for (int64_t begin = 0; begin < columns; begin += kShortRun) {
      const int64_t end = begin + kShortRun < columns ? begin + kShortRun : columns;
      decode_block(weight, {n, outputs, begin, end, kGroup}, a);
      memory_barrier();
      const uint16_t* b = packed + begin * rows;
      const int64_t tiles = (end - begin) / kTileColumns;
      switch (weight_tiles) {
        case 1:
          run_column<1>(a, b, tiles, rows);
          break;
        case 2:
          run_column<2>(a, b, tiles, rows);
          break;
        case 3:
          run_column<3>(a, b, tiles, rows);
          break;
        default:
          run_column<4>(a, b, tiles, rows);
          break;
      }
      memory_barrier();
    }
    store_sums(c);
    for (int64_t t = 0; t < weight_tiles; ++t) {
      store_transposed(c + t * kCElements, at_most_16(outputs - t * kTileRows), rows, out + n + t * kTileRows, stride);
    }
  }
}

// More rows: squares of 2 x 2 tiles.  Runs of kLongRun columns of two weight tiles stay in the first-level cache while
// all activation rows pass; sums wait in c, [weight tile pair][activation tile pair][4] tiles.
void multiply_many(const WeightBlock& weight, const uint16_t* packed, int64_t rows, float* out, int64_t stride,
                   uint16_t* a, float* c) {
  constexpr int64_t kGroup = 2 * kTileRows;
  const int64_t columns = packed_columns(weight.format, weight.k);
  const int64_t row_pairs = (rows + kGroup - 1) / kGroup;
  const int64_t last_rows = rows - (row_pairs - 1) * kGroup;  // of the last pair, 1 .. 32
  const int64_t last_second = last_rows > kTileRows ? last_rows - kTileRows : 0;
  const int64_t last_first = last_rows - last_second;
  for (int64_t begin = 0; begin < columns; begin += kLongRun) {
    const int64_t end = begin + kLongRun < columns ? begin + kLongRun : columns;
    const int64_t tiles = (end - begin) / kTileColumns;
    for (int64_t n = 0; n < weight.outputs; n += kGroup) {
      const int64_t outputs = weight.outputs - n < kGroup ? weight.outputs - n : kGroup;
      decode_block(weight, {n, outputs, begin, end, kGroup}, a);
      if (outputs <= kTileRows)
        __builtin_memset(a + tiles * kTileElements, 0, static_cast<size_t>(tiles * kTileElements) * 2);
      memory_barrier();
      configure(kTileRows, kTileRows, true);
      for (int64_t pair = 0; pair < row_pairs; ++pair) {
        const bool last = pair == row_pairs - 1;
        const int64_t first = last ? last_first : kTileRows, second = last ? last_second : kTileRows;
        if (last && last_rows < kGroup)
          configure(static_cast<int>(first), static_cast<int>(second > 0 ? second : first), true);
        // Tile t of the packed rows starts at row 16 t; without a second tile the first one stands in for it.
        const uint16_t* b0 = packed + pair * kGroup * columns + begin * first;
        const uint16_t* b1 = second > 0 ? packed + (pair * kGroup + kTileRows) * columns + begin * second : b0;
        float* sums = c + (n / kGroup * row_pairs + pair) * 4 * kCElements;
        if (begin == 0) {
          zero_sums();
        } else {
          load_sums(sums);
        }
        if (first == kTileRows) {
          run_square(a, b0, b1, tiles, second > 0 ? second : first);
        } else {
          run_column<2>(a, b0, tiles, first);
        }
        store_sums(sums);
        if (end < columns) continue;
        for (int64_t i = 0; i < 2; ++i) {
          const int64_t left = outputs - i * kTileRows;
          if (left <= 0) break;
          float* to = out + pair * kGroup * stride + n + i * kTileRows;
          store_transposed(sums + (first == kTileRows ? 2 * i : i) * kCElements, at_most_16(left),
                           static_cast<int>(first), to, stride);
          if (second > 0) {
            store_transposed(sums + (2 * i + 1) * kCElements, at_most_16(left), static_cast<int>(second),
                             to + kTileRows * stride, stride);
          }
        }
      }
    }
  }
}

constexpr int64_t kAElements =
    4 * kTileRows * kShortRun > 2 * kTileRows* kLongRun ? 4 * kTileRows* kShortRun : 2 * kTileRows* kLongRun;
constexpr int64_t kSums = kMaxBlockRows * kMaxBlockOutputs;

}  // namespace

size_t scratch_bytes(int64_t) {
  return static_cast<size_t>(kAElements) * sizeof(uint16_t) + static_cast<size_t>(kSums) * sizeof(float);
}

void multiply(const WeightBlock& weight, const uint16_t* packed, int64_t rows, float* out, int64_t stride,
              std::byte* scratch) {
  auto* a = reinterpret_cast<uint16_t*>(scratch);
  auto* c = reinterpret_cast<float*>(scratch + kAElements * sizeof(uint16_t));
  if (rows <= kTileRows) {
    multiply_few(weight, packed, static_cast<int>(rows), out, stride, a, c);
  } else {
    multiply_many(weight, packed, rows, out, stride, a, c);
  }
  _tile_release();  // the thread's tile registers need no saving at a context switch
}

}  // namespace deepinfer::cpu::amx

namespace deepinfer::cpu {

const ProductKernels& product_kernels_amx() {
  static const ProductKernels kTable = [] {
    ProductKernels table = product_kernels_avx512();  // the element-wise kernels
    table.packed_columns = amx::packed_columns;
    table.pack = amx::pack;
    table.multiply = amx::multiply;
    table.scratch_bytes = amx::scratch_bytes;
    return table;
  }();
  return kTable;
}

}  // namespace deepinfer::cpu
