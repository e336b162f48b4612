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

constexpr int64_t kRangeElements = kRangeOutputs * kMaxRun;
constexpr int64_t kSumElements = kTileRows * kTileRows;

// Tile registers: 0-3 sums, 4 and 5 weights, 6 and 7 activations.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// first, second: activation rows of the tiles 6 and 7.  Sums 0 and 2 belong to the first, 1 and 3 to the second.
void configure(int64_t first, int64_t second) {
  TileConfig config;
  const auto set = [&config](int tile, int64_t columns) {
    config.rows[tile] = 16;
    config.bytes_per_row[tile] = static_cast<uint16_t>(4 * columns);
  };
  for (int sum = 0; sum < 4; ++sum) set(sum, sum % 2 == 0 ? first : second);
  set(4, 16);
  set(5, 16);
  set(6, first);
  set(7, second);
  __asm__ volatile("" ::"r"(&config) : "memory");  // the intrinsic names only the first bytes as its input
  _tile_loadconfig(&config);
}

// The compiler does not know what the tile instructions read and write.
DI_TILE void memory_barrier() {
  __asm__ volatile("" ::: "memory");
}

DI_TILE void zero_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

// Where the four sums of a pair of row tiles wait.  Sum t of consecutive pairs lies at different places of a page: a
// load whose address looks like that of a store still under way would have to wait for it.
struct WaitingSums {
  float* memory;
  int64_t pair;
  DI_TILE_MEMBER float* sum(int64_t t) const { return memory + (t + pair) % 4 * kSumElements; }
};

DI_TILE void load_sums(WaitingSums from) {
  memory_barrier();
  _tile_loadd(0, from.sum(0), 64);
  _tile_loadd(1, from.sum(1), 64);
  _tile_loadd(2, from.sum(2), 64);
  _tile_loadd(3, from.sum(3), 64);
}

DI_TILE void store_sums(WaitingSums to) {
  _tile_stored(0, to.sum(0), 64);
  _tile_stored(1, to.sum(1), 64);
  _tile_stored(2, to.sum(2), 64);
  _tile_stored(3, to.sum(3), 64);
  memory_barrier();
}

DI_TILE void exchange_sums(WaitingSums to, WaitingSums from) {
  _tile_stored(0, to.sum(0), 64);
  _tile_loadd(0, from.sum(0), 64);
  _tile_stored(1, to.sum(1), 64);
  _tile_loadd(1, from.sum(1), 64);
  _tile_stored(2, to.sum(2), 64);
  _tile_loadd(2, from.sum(2), 64);
  _tile_stored(3, to.sum(3), 64);
  _tile_loadd(3, from.sum(3), 64);
  memory_barrier();
}

// Brings a part of the sums of the next pair near.  They have long been this core's own: a plain read is enough, and
// faster.
constexpr int64_t kSumLines = 4 * 4 * kSumElements / 64, kSumLinesAtOnce = 8;
DI_TILE void prefetch_sums(WaitingSums sums, int64_t part) {
  const char* line = reinterpret_cast<const char*>(sums.memory) + part * kSumLinesAtOnce * 64;
  for (int64_t i = 0; i < kSumLinesAtOnce; ++i) _mm_prefetch(line + i * 64, _MM_HINT_T0);
}

// Lines [first, last) of an activation tile, into the second-level cache.
DI_TILE void prefetch_lines(const uint16_t* tile, int64_t first, int64_t last) {
  for (int64_t line = first; line < last; ++line) {
    _mm_prefetch(reinterpret_cast<const char*>(tile + line * kTileColumns), _MM_HINT_T1);
  }
}

// A tile store takes a thousand cycles when the last one was more than some two thousand ago (measured), so loops that
// keep their sums in registers store a tile now and then.
DI_TILE void keep_stores_awake(float* place) {
  _tile_stored(6, place, 64);
}

// Sums of 32 outputs and 16 rows that are complete, in memory.
struct FinishedSums {
  const float* first_outputs;
  const float* next_outputs;  // from the 17th
  int64_t output, outputs;
  int64_t row, rows;

  void store(const ProductOutput& out) const {
    const int64_t place = row * out.stride + output;
    if (out.bf16 != nullptr) {
      store_rounded(first_outputs, next_outputs, static_cast<int>(outputs), static_cast<int>(rows), out.bf16 + place,
                    out.stride);
      return;
    }
    store_transposed(first_outputs, static_cast<int>(least(kTileRows, outputs)), static_cast<int>(rows),
                     out.fp32 + place, out.stride);
    if (outputs <= kTileRows) return;
    store_transposed(next_outputs, static_cast<int>(outputs - kTileRows), static_cast<int>(rows),
                     out.fp32 + place + kTileRows, out.stride);
  }
};

// A weight's ranges in order: all runs of 32 outputs and then the next 32 (along_k), or all outputs of a run and then
// the next run.  Each is decoded between the tile products of the one before.
class Ranges {
 public:
  Ranges(const WeightBlock& weight, int64_t run_columns, bool along_k)
      : k_(weight.k),
        outputs_(weight.outputs),
        columns_(packed_columns(weight.format, weight.k)),
        run_columns_(run_columns),
        along_k_(along_k),
        runs_((columns_ + run_columns - 1) / run_columns),
        groups_((weight.outputs + kRangeOutputs - 1) / kRangeOutputs) {}

  int64_t count() const { return runs_ * groups_; }

  DecodeRange operator[](int64_t i) const {
    const int64_t first = group(i) * kRangeOutputs, begin = run(i) * run_columns_;
    int64_t ahead = 0;
    if (i + 1 < count()) {
      ahead = (group(i + 1) - group(i)) * kRangeOutputs * k_ + (run(i + 1) - run(i)) * run_columns_;
    }
    return {.first = first,
            .rows = least(kRangeOutputs, outputs_ - first),
            .begin = begin,
            .end = least(begin + run_columns_, columns_),
            .ahead = ahead};
  }

 private:
  int64_t group(int64_t i) const { return along_k_ ? i / runs_ : i % groups_; }
  int64_t run(int64_t i) const { return along_k_ ? i % runs_ : i / groups_; }

  int64_t k_, outputs_, columns_, run_columns_;
  bool along_k_;
  int64_t runs_, groups_;
};

// At most 16 activation rows: the sums of a group of outputs stay in registers along K, two weight tiles times one
// activation tile.  Decoding takes longer than the two chains of tile products; the next range takes the place of this
// one tile by tile, which leaves the first-level cache to the weights.
template <WeightFormat kFormat>
void multiply_few(const WeightBlock& weight, const uint16_t* packed, int64_t rows, const ProductOutput& out,
                  uint16_t* memory, float* sums) {
  const int64_t columns = packed_columns(kFormat, weight.k);
  configure(rows, rows);
  const Ranges ranges(weight, kMaxRun, true);
  __m512i surplus[kRunTiles / 2];
  RangeDecoder<kFormat> decoder(surplus);
  decoder.start(weight, ranges[0], memory);
  decoder.decode_from(0);
  for (int64_t i = 0; i < ranges.count(); ++i) {
    const DecodeRange range = ranges[i];
    const int64_t tiles = (range.end - range.begin) / kTileColumns;
    const uint16_t* b = packed + range.begin * rows;
    const bool last = i + 1 == ranges.count();
    if (!last) decoder.start(weight, ranges[i + 1], memory);
    if (range.begin == 0) zero_sums();
    memory_barrier();
    for (int64_t t = 0; t < tiles; ++t) {
      _tile_loadd(6, b + t * kTileColumns * rows, 4 * rows);
      _tile_loadd(4, memory + t * kTileElements, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(5, memory + (kRunTiles + t) * kTileElements, 64);
      _tile_dpbf16ps(1, 5, 6);
      memory_barrier();
      if (last) continue;
      for (int64_t r = 0; r < kRangeOutputs / kRunTiles; ++r) decoder.template prefetch_row<_MM_HINT_T0>();
      decoder.decode(t);
    }
    if (!last) decoder.decode_from(tiles);
    keep_stores_awake(sums + 2 * kSumElements);
    if (range.end < columns) continue;
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + kSumElements, 64);
    memory_barrier();
    FinishedSums{sums, sums + kSumElements, range.first, range.rows, 0, rows}.store(out);
  }
}

// The activation tiles of 32 rows.
struct RowPair {
  int64_t first, second;
};
DI_TILE RowPair row_pair(int64_t left) {
  const int64_t first = least(kTileRows, left);
  return {first, least(kTileRows, left - first)};
}

// Columns of a run: as few runs as kMaxRun allows, of about the same length, in whole steps of any format.
int64_t even_runs(int64_t columns) {
  constexpr int64_t kStep = 64;
  const int64_t runs = (columns + kMaxRun - 1) / kMaxRun;
  return ((columns + runs - 1) / runs + kStep - 1) / kStep * kStep;
}

// More rows: squares of 2 x 2 tiles.  A range of weights is decoded and then stays in the first-level cache while all
// activation rows pass; these are read without pushing it out.  Between runs the sums wait in memory, four tiles for
// each pair of row tiles and group of outputs; at most 64 rows follow K at once, so that their sums stay near.  Tiles
// always have 16 columns, as another shape would empty the registers: behind the last row they read what follows, into
// sums that nobody reads.
//
// Decoding and the tile products take turns: mixed more finely they slow each other down, as tile loads wait for every
// store under way whose address looks alike.
template <WeightFormat kFormat>
void multiply_many(const WeightBlock& weight, const uint16_t* packed, int64_t rows, const ProductOutput& out,
                   uint16_t* memory, float* sums) {
  constexpr int64_t kPairRows = 2 * kTileRows;
  const int64_t columns = packed_columns(kFormat, weight.k);
  const int64_t pairs = (rows + kPairRows - 1) / kPairRows;
  const int64_t groups = (weight.outputs + kRangeOutputs - 1) / kRangeOutputs;
  const int64_t run_columns = even_runs(columns);
  const Ranges ranges(weight, run_columns, pairs <= 2);
  const int64_t ahead_rows = (kRangeOutputs + pairs - 1) / pairs;  // of the next range, brought near beside each pair
  configure(kTileRows, kTileRows);
  __m512i surplus[kRunTiles / 2];
  RangeDecoder<kFormat> decoder(surplus);
  for (int64_t i = 0; i < ranges.count(); ++i) {
    const DecodeRange range = ranges[i];
    const int64_t tiles = (range.end - range.begin) / kTileColumns;
    const bool first_run = range.begin == 0, last_run = range.end == columns;
    const bool last = i + 1 == ranges.count();
    decoder.start(weight, range, memory);
    decoder.decode_from(0);
    // A group's share of the next run's activations, which are brought near meanwhile.
    const int64_t group = range.first / kRangeOutputs;
    const int64_t first_line = kTileRows * group / groups, last_line = kTileRows * (group + 1) / groups;
    float* group_sums = sums + group * pairs * 4 * kSumElements;
    bool loaded = false;  // the sums of the pair, by exchange with those of the pair before
    memory_barrier();
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const int64_t row = pair * kPairRows;
      const RowPair count = row_pair(rows - row);
      const WaitingSums own{group_sums + pair * 4 * kSumElements, pair};
      const WaitingSums next{own.memory + 4 * kSumElements, pair + 1};
      if (first_run) {
        zero_sums();
      } else if (!loaded && pairs > 1) {
        load_sums(own);
      }
      const uint16_t* b0 = packed + row * columns + range.begin * count.first;
      const uint16_t* b1 = packed + (row + kTileRows) * columns + range.begin * count.second;
      for (int64_t t = 0; t < tiles; ++t) {
        const uint16_t* b0_tile = b0 + t * kTileColumns * count.first;
        const uint16_t* b1_tile = b1 + t * kTileColumns * count.second;
        _tile_stream_loadd(6, b0_tile, 4 * count.first);
        _tile_loadd(4, memory + t * kTileElements, 64);
        _tile_loadd(5, memory + (kRunTiles + t) * kTileElements, 64);
        if (count.second > 0) {
          _tile_stream_loadd(7, b1_tile, 4 * count.second);
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(1, 4, 7);
          _tile_dpbf16ps(2, 5, 6);
          _tile_dpbf16ps(3, 5, 7);
        } else {
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(2, 5, 6);
        }
        if (pairs > 1) {
          if (tiles - t <= kSumLines / kSumLinesAtOnce) prefetch_sums(next, tiles - 1 - t);
          prefetch_lines(b0_tile + run_columns * count.first, first_line, last_line);
          if (count.second > 0) prefetch_lines(b1_tile + run_columns * count.second, first_line, last_line);
        }
        if (last) continue;
        // Not yet into the first-level cache: activations and sums pass through it meanwhile.
        for (int64_t r = ahead_rows * t / tiles; r < ahead_rows * (t + 1) / tiles; ++r) {
          decoder.template prefetch_row<_MM_HINT_T1>();
        }
      }
      if (pairs == 1 && !last_run) {
        keep_stores_awake(own.memory + 4 * kSumElements);
        continue;
      }
      loaded = !first_run && pair + 1 < pairs;
      if (loaded) {
        exchange_sums(own, next);
      } else {
        store_sums(own);
      }
      if (!last_run) continue;
      FinishedSums{own.sum(0), own.sum(2), range.first, range.rows, row, count.first}.store(out);
      if (count.second == 0) continue;
      FinishedSums{own.sum(1), own.sum(3), range.first, range.rows, row + kTileRows, count.second}.store(out);
    }
  }
}

template <WeightFormat kFormat>
void multiply_format(const WeightBlock& weight, const uint16_t* packed, int64_t rows, const ProductOutput& out,
                     uint16_t* memory, float* sums) {
  if (rows <= kTileRows) {
    multiply_few<kFormat>(weight, packed, rows, out, memory, sums);
  } else {
    multiply_many<kFormat>(weight, packed, rows, out, memory, sums);
  }
}

}  // namespace

size_t scratch_bytes(int64_t) {
  return static_cast<size_t>(kRangeElements) * sizeof(uint16_t) +
         static_cast<size_t>(kMaxBlockRows * kMaxBlockOutputs + 4 * kSumElements) * sizeof(float);
}

void multiply(const WeightBlock& weight, const uint16_t* packed, int64_t rows, const ProductOutput& out,
              std::byte* scratch) {
  auto* memory = reinterpret_cast<uint16_t*>(scratch);
  auto* sums = reinterpret_cast<float*>(scratch + kRangeElements * sizeof(uint16_t));
  switch (weight.format) {
    case WeightFormat::kFp8:
      multiply_format<WeightFormat::kFp8>(weight, packed, rows, out, memory, sums);
      break;
    case WeightFormat::kFp4:
      multiply_format<WeightFormat::kFp4>(weight, packed, rows, out, memory, sums);
      break;
    case WeightFormat::kBf16:
      multiply_format<WeightFormat::kBf16>(weight, packed, rows, out, memory, sums);
      break;
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
