// One cluster a row.  Scores: each block of the cluster takes as many slots and all channels.  Values: each block takes
// as many channels and all slots, so that a sum is one chain whatever the cluster.  In between the blocks exchange the
// largest scores, then the numerators.  A block decodes what it needs of the records itself, once for each half.
//
// The 16 warps decode records into a ring of stages in shared memory; the first one or two warpgroups multiply what has
// been decoded at the same time.  Records lie in a stage as rows of 128 bytes, 64 channels, with the swizzle of 128
// bytes: for the scores rows of B along K, for the values rows of K, the transposed operand.
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "backends/cuda/device/bulk_copy.cuh"
#include "backends/cuda/device/cluster.cuh"
#include "backends/cuda/device/collectives.cuh"
#include "backends/cuda/device/launch_dependency.cuh"
#include "backends/cuda/device/shared_address.cuh"
#include "backends/cuda/device/views.cuh"
#include "backends/cuda/device/wgmma.cuh"
#include "backends/cuda/device/wgmma_attention_shapes.cuh"
#include "backends/cuda/kernels/attention/attention.h"
#include "backends/cuda/kernels/attention/record_channels.cuh"
#include "backends/cuda/launch/launch.cuh"
#include "base/check.h"

namespace deepinfer::cuda {
namespace {

constexpr int kHeads = kSm90AttentionHeads, kHeadDim = kSm90AttentionHeadDim;
constexpr int kThreads = 512;
constexpr int kChunks = kHeadDim / 64;  // of 64 channels: a row of 128 bytes
constexpr int kRowBytes = 128;
constexpr uint32_t kCompressedBytes = main_kv_record_bytes(kHeadDim), kWindowBytes = fp8_record_bytes(kHeadDim);
constexpr float kNoScore = -1e30f;  // the floor of the maximum

// Blocks: of a cluster.  Groups: warpgroups that multiply.  Slots: of a group, at the scores.  Stages: of the ring.
// StageSlots: of a stage, at the values.  Ahead: stages whose records are fetched before they are decoded.
template <int Blocks, int Groups, int Slots, int Stages, int StageSlots, int ScoresAhead, int ValuesAhead>
struct Shape {
  static constexpr int kBlocks = Blocks, kGroups = Groups, kGroupSlots = Slots, kStages = Stages;
  static constexpr int kStageSlots = StageSlots, kScoresAhead = ScoresAhead, kValuesAhead = ValuesAhead;
  static constexpr int kBlockSlots = Groups * Slots;
  static constexpr int kSlots = Blocks * kBlockSlots;  // of a row, at most
  static constexpr int kChannels = kHeadDim / Blocks, kGroupChannels = kChannels / Groups;
  static constexpr int kScoreItems = (kBlockSlots * 4 + kThreads - 1) / kThreads;
  static constexpr int kValueItems = (StageSlots * kChannels / 16 + kThreads - 1) / kThreads;
  static constexpr int kValueStages = (kSlots + StageSlots - 1) / StageSlots;
  static constexpr int kDecodedAhead = std::min(kValueStages, std::max(1, Stages - 2));

  static constexpr int kStageBytes = std::max(kBlockSlots * kRowBytes, StageSlots * kChannels * 2);
  static constexpr int kUnits = kSlots / 16;
  // Offsets in shared memory.  The numerators lie where q has been.
  static constexpr int kQuery = kStages * kStageBytes;
  static constexpr int kSums = kQuery + std::max(kHeads * kHeadDim * 2, kSlots * kHeads * 2);
  static constexpr int kMaxima = kSums + kUnits * kHeads * 4;
  static constexpr int kRecords = kMaxima + Blocks * Groups * kHeads * 4;
  static constexpr int kDenominators = kRecords + kSlots * 8;
  static constexpr int kBytes = kDenominators + kHeads * 4 + 1024;  // 1,024: for the alignment
  static_assert(Slots % 16 == 0 && kGroupChannels % 64 == 0 && kStageBytes % 1024 == 0);
  static_assert(kBytes + 64 <= 227 * 1024);
};

struct Arguments {
  SparseAttention op;
  SequenceList<AttentionSequence> list;
  float scale;  // head_dim^-0.5 kStoredFactor
};

// What is said of a row once.
struct Row {
  int count;   // slots
  int window;  // of them window rows: the first ones
  bool aligned;  // all records, to 16 bytes
};

// A value that is the same in all lanes of a warp; the compiler learns it, which branches around wgmma need.
__device__ __forceinline__ int uniform(int value) { return __shfl_sync(kAllLanes, value, 0); }

// Where the record of a slot lies: shared, [slots].
using Records = const uint8_t* const*;

// Piece `piece` of 16 bytes of row `row`, swizzled.
__device__ __forceinline__ uint32_t piece_of(uint32_t rows, int row, int piece) {
  return rows + static_cast<uint32_t>(row * kRowBytes + ((piece ^ row) & 7) * 16);
}
__device__ __forceinline__ void store_piece(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// Sixteen channels of one slot, the part of a stage that a thread decodes at a time.
struct Item {
  int slot;     // of the row
  int row;      // of the stage's rows
  int channel;  // of the record
  uint32_t at;  // the 64 channels' rows of the stage
  int quarter;  // of them
};

__device__ __forceinline__ void load_item(StoredChannels* items, const Item& item, const Row& row, Records records, int k) {
  if (item.slot < row.count)
    load_stored<kHeadDim>(items[k], records[item.slot], item.slot >= row.window, row.aligned,
                          static_cast<uint32_t>(item.channel));
}
template <bool kZeros>  // for slots that are not there
__device__ __forceinline__ void store_item(const StoredChannels& stored, const Item& item, const Row& row) {
  uint32_t pairs[8] = {};
  if (item.slot < row.count) {
    decode_stored(pairs, stored, item.slot >= row.window);
  } else if (!kZeros) {
    return;
  }
  store_piece(piece_of(item.at, item.row, 2 * item.quarter), pairs[0], pairs[1], pairs[2], pairs[3]);
  store_piece(piece_of(item.at, item.row, 2 * item.quarter + 1), pairs[4], pairs[5], pairs[6], pairs[7]);
}

// Finds the row's sequence, fetches q and lists the records.  Ends with a barrier.
__device__ __forceinline__ Row begin_row(const Arguments& arguments, int64_t list_row, uint32_t query,
                                         const uint8_t** records, int64_t& q_row) {
  __shared__ int shared_entry;
  const SparseAttention& op = arguments.op;
  const int own = static_cast<int>(threadIdx.x);
  for (int e = own; e < arguments.list.count; e += kThreads) {
    const auto& entry = arguments.list.entries[e];
    if (entry.begin <= list_row && list_row < entry.begin + entry.sequence.rows) shared_entry = e;
  }
  __syncthreads();
  const auto& entry = arguments.list.entries[shared_entry];
  const AttentionSequence& sequence = entry.sequence;
  const int64_t i = list_row - entry.begin;
  q_row = sequence.first_row + i;
  int64_t last = sequence.position + i, first = last - op.window_size + 1;
  if (op.window == SparseAttention::Window::kDraftBlock) {
    first = sequence.position - op.window_size;
    last = sequence.position + sequence.step_records - 1;
  }
  first = max(first, sequence.first_visible);
  const int window = static_cast<int>(max(last - first + 1, int64_t{0}));

  const uint4* q = reinterpret_cast<const uint4*>(row_of(op.q, q_row));
  constexpr int kPieces = kHeads * kHeadDim / 8 / kThreads;
  uint4 pieces[kPieces];
#pragma unroll
  for (int p = 0; p < kPieces; ++p) pieces[p] = q[p * kThreads + own];
  bool aligned = true;
  const auto enter = [&](int slot, const uint8_t* record, uint32_t bytes) {
    records[slot] = record;
    if (reinterpret_cast<uintptr_t>(record) % 16 == 0) {
      bulk_prefetch(record, bytes);
    } else {
      aligned = false;
    }
  };
  int mine = 0;
  if (op.selected.data != nullptr) {
    const int32_t* selected = row_of(op.selected, q_row);
    const auto rows_per_block = static_cast<uint32_t>(sequence.compressed.rows_per_block);
    for (int s = own; s < op.selected.columns; s += kThreads) {
      const int32_t j = selected[s];
      if (j < 0) continue;
      ++mine;
      const uint32_t block = static_cast<uint32_t>(j) / rows_per_block;
      const auto* record = reinterpret_cast<const uint8_t*>(
          sequence.compressed.blocks[block] +
          static_cast<int64_t>(static_cast<uint32_t>(j) - block * rows_per_block) * sequence.compressed.record_bytes);
      enter(window + s, record, kCompressedBytes);
    }
  }
  const auto first_slot = static_cast<int>(static_cast<uint32_t>(first) % static_cast<uint32_t>(sequence.ring.slots));
  const int before = static_cast<int>(min(max(sequence.step_position - first, int64_t{0}), int64_t{window}));
  for (int s = own; s < window; s += kThreads) {
    const uint8_t* record = row_of(op.step_records, sequence.first_record + first + s - sequence.step_position);
    if (s < before) {  // fewer than there are slots
      const int at = first_slot + s, slots = static_cast<int>(sequence.ring.slots);
      record = reinterpret_cast<const uint8_t*>(sequence.ring.data) +
               (at < slots ? at : at - slots) * sequence.ring.record_bytes;
    }
    enter(s, record, kWindowBytes);
  }
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const int at = p * kThreads + own, head = at / (kHeadDim / 8), piece = at % (kHeadDim / 8);
    const uint4 channels = reordered(pieces[p]);
    store_piece(piece_of(query + static_cast<uint32_t>(piece / 8 * kHeads * kRowBytes), head, piece % 8), channels.x,
                channels.y, channels.z, channels.w);
  }
  const int compressed = __syncthreads_count(mine > 0) + __syncthreads_count(mine > 1);
  aligned = __syncthreads_and(static_cast<int>(aligned)) != 0;
  return {uniform(window + compressed), window, aligned};
}

// Everything behind begin_row.  kMultiplies: the warpgroups that multiply.
template <typename S, bool kMultiplies>
__device__ __forceinline__ void attend(const Arguments& arguments, int64_t q_row, const Row& row, std::byte* memory,
                                       uint32_t arrived) {
  const uint32_t stages = shared_address(memory), query = stages + S::kQuery;
  const auto records = reinterpret_cast<Records>(memory + S::kRecords);
  auto* sums = reinterpret_cast<float*>(memory + S::kSums);      // [unit][head]: of 16 slots
  auto* maxima = reinterpret_cast<float*>(memory + S::kMaxima);  // [block][group][head]
  auto* denominators = reinterpret_cast<float*>(memory + S::kDenominators);
  const int own = static_cast<int>(threadIdx.x), lane = lane_id(), group = uniform(own / 128);
  const auto rank = static_cast<int>(cluster_rank());
  const int units = (row.count + 15) / 16;
  const auto slots_of_block = [&](int block) {
    return min(max(units * 16 - block * S::kBlockSlots, 0), S::kBlockSlots);
  };
  const int first_slot = rank * S::kBlockSlots, own_slots = slots_of_block(rank);
  const int group_slot = first_slot + group * S::kGroupSlots;
  // Of a group's fragments: rows head and head + 8, columns 8 j + column and the next.
  const int head = own % 128 / 32 * 16 + lane / 4, column = lane % 4 * 2;

  // Scores, 64 channels a stage.
  float scores[S::kGroupSlots / 2] = {};
  {
    StoredChannels stored[S::kScoresAhead][S::kScoreItems];
    const auto item_of = [&](int chunk, int k) {
      const int i = own + k * kThreads, slot = i / 4;
      return Item{slot < own_slots ? first_slot + slot : S::kSlots, slot, chunk * 64 + i % 4 * 16,
                  stages + static_cast<uint32_t>(chunk % S::kStages * S::kStageBytes), i % 4};
    };
#pragma unroll
    for (int c = 0; c < S::kScoresAhead; ++c)
#pragma unroll
      for (int k = 0; k < S::kScoreItems; ++k) load_item(stored[c], item_of(c, k), row, records, k);
#pragma unroll 1
    for (int first = 0; first < kChunks; first += S::kScoresAhead)
#pragma unroll
      for (int ahead = 0; ahead < S::kScoresAhead; ++ahead) {
        const int c = first + ahead;
#pragma unroll
        for (int k = 0; k < S::kScoreItems; ++k) store_item<false>(stored[ahead][k], item_of(c, k), row);
        const auto load_next = [&] {
          if (c + S::kScoresAhead < kChunks)
#pragma unroll
            for (int k = 0; k < S::kScoreItems; ++k)
              load_item(stored[ahead], item_of(c + S::kScoresAhead, k), row, records, k);
        };
        if (!kMultiplies) load_next();
        if (kMultiplies) wgmma_wait<S::kStages - 2>();  // the stage that is written next has been read
        __syncthreads();
        if (kMultiplies) {
          const uint32_t a = query + static_cast<uint32_t>(c * kHeads * kRowBytes);
          const uint32_t b = stages + static_cast<uint32_t>(c % S::kStages * S::kStageBytes +
                                                            group * S::kGroupSlots * kRowBytes);
          fence_async_proxy();  // what all threads wrote; it waits for this thread's loads too, so that those follow
          wgmma_fence();
#pragma unroll
          for (uint32_t k = 0; k < 4; ++k)
            WgmmaBf16<S::kGroupSlots>::multiply(scores, swizzled_descriptor(a + k * 32),
                                                swizzled_descriptor(b + k * 32), c + static_cast<int>(k) > 0);
          wgmma_commit();
          load_next();
        }
      }
  }

  // Values, StageSlots slots a stage.
  StoredChannels stored[S::kValuesAhead][S::kValueItems];
  const auto item_of = [&](int stage, int k) {
    const int i = own + k * kThreads, at = i / 4 % S::kStageSlots, chunk = i / 4 / S::kStageSlots;
    return Item{stage * S::kStageSlots + at, at, rank * S::kChannels + chunk * 64 + i % 4 * 16,
                stages + static_cast<uint32_t>(stage % S::kStages * S::kStageBytes +
                                               chunk * S::kStageSlots * kRowBytes),
                i % 4};
  };
  // place: of `stored`, stage % kValuesAhead.
  const auto load = [&](int stage, int place) {
#pragma unroll
    for (int k = 0; k < S::kValueItems; ++k) load_item(stored[place], item_of(stage, k), row, records, k);
  };
  const auto decode = [&](int stage, int place) {
    if (stage * S::kStageSlots >= row.count) return;
#pragma unroll
    for (int k = 0; k < S::kValueItems; ++k)
      if (S::kStageSlots * S::kChannels / 16 % kThreads == 0 || own + k * kThreads < S::kStageSlots * S::kChannels / 16)
        store_item<true>(stored[place][k], item_of(stage, k), row);
    load(stage + S::kValuesAhead, place);
  };
#pragma unroll
  for (int stage = 0; stage < S::kValuesAhead; ++stage) load(stage, stage);
  if (own == 0) {
    int expected = 0;
    for (int block = 0; block < S::kBlocks; ++block)
      if (block != rank) expected += slots_of_block(block) * (kHeads * 2 + kHeads / 4);
    barrier_arrive_expect(arrived, static_cast<uint32_t>(expected));
  }
  if (kMultiplies) wgmma_wait<0>();
  __syncthreads();  // all stages have been read
  if (kMultiplies) {
    float top[2] = {kNoScore, kNoScore};
#pragma unroll
    for (int r = 0; r < S::kGroupSlots / 2; ++r) {
      scores[r] *= arguments.scale;
      if (group_slot + r / 4 * 8 + column + r % 2 < row.count) top[r / 2 % 2] = fmaxf(top[r / 2 % 2], scores[r]);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      top[i] = fmaxf(top[i], __shfl_xor_sync(kAllLanes, top[i], 1));
      top[i] = fmaxf(top[i], __shfl_xor_sync(kAllLanes, top[i], 2));
      const uint32_t at = shared_address(maxima + (rank * S::kGroups + group) * kHeads + head + 8 * i);
      for (int block = lane % 4; block < S::kBlocks; block += 4)
        store_in_cluster(cluster_address(at, static_cast<uint32_t>(block)), top[i]);
    }
  }
  cluster_arrive();
#pragma unroll
  for (int stage = 0; stage < S::kDecodedAhead; ++stage) decode(stage, stage % S::kValuesAhead);
  cluster_wait();  // q has been read everywhere
  if (kMultiplies) {
    float top[2] = {kNoScore, kNoScore};
#pragma unroll
    for (int part = 0; part < S::kBlocks * S::kGroups; ++part)
#pragma unroll
      for (int i = 0; i < 2; ++i) top[i] = fmaxf(top[i], maxima[part * kHeads + head + 8 * i]);
    float of_units[S::kGroupSlots / 16][2];
    std::byte* const to = memory + S::kQuery + (group_slot / 8 * kHeads + head) * 16 + column * 2;
#pragma unroll
    for (int unit = 0; unit < S::kGroupSlots / 16; ++unit) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float numerators[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const int slot = group_slot + unit * 16 + r / 2 * 8 + column + r % 2;
          const float score = scores[(2 * unit + r / 2) * 4 + 2 * i + r % 2];
          numerators[r] = slot < row.count ? expf(score - top[i]) : 0.0f;
        }
        of_units[unit][i] = (numerators[0] + numerators[1]) + (numerators[2] + numerators[3]);
#pragma unroll
        for (int half = 0; half < 2; ++half)
          *reinterpret_cast<__nv_bfloat162*>(to + (2 * unit + half) * kHeads * 16 + i * 8 * 16) =
              __floats2bfloat162_rn(numerators[2 * half], numerators[2 * half + 1]);
      }
    }
#pragma unroll
    for (int step = 1; step <= 2; ++step)
#pragma unroll
      for (int unit = 0; unit < S::kGroupSlots / 16; ++unit)
#pragma unroll
        for (int i = 0; i < 2; ++i) of_units[unit][i] += __shfl_xor_sync(kAllLanes, of_units[unit][i], step);
    if (lane % 4 == 0) {
#pragma unroll
      for (int unit = 0; unit < S::kGroupSlots / 16; ++unit)
#pragma unroll
        for (int i = 0; i < 2; ++i) sums[(group_slot / 16 + unit) * kHeads + head + 8 * i] = of_units[unit][i];
    }
    fence_async_proxy();  // the copies to the other blocks follow
  }
  __syncthreads();
  if (own == kThreads - 1 && own_slots > 0) {
    for (int block = 0; block < S::kBlocks; ++block) {
      if (block == rank) continue;
      const auto to = [&](uint32_t shared) { return cluster_address(shared, static_cast<uint32_t>(block)); };
      const uint32_t numerators = query + static_cast<uint32_t>(first_slot * kHeads * 2);
      const uint32_t unit_sums = shared_address(sums + first_slot / 16 * kHeads);
      bulk_copy_in_cluster(to(numerators), numerators, static_cast<uint32_t>(own_slots * kHeads * 2), to(arrived));
      bulk_copy_in_cluster(to(unit_sums), unit_sums, static_cast<uint32_t>(own_slots * kHeads / 4), to(arrived));
    }
  }
  if (kMultiplies || own >= kThreads - kHeads) barrier_wait(arrived, 0);
  if (own >= kThreads - kHeads) {
    const int h = own - (kThreads - kHeads);
    float top = kNoScore, sum = 0;
    for (int part = 0; part < S::kBlocks * S::kGroups; ++part) top = fmaxf(top, maxima[part * kHeads + h]);
    for (int unit = 0; unit < units; ++unit) sum += sums[unit * kHeads + h];
    denominators[h] = sum + expf(arguments.op.sink[h] - top);
  }
  float values[S::kGroupChannels / 2] = {};
#pragma unroll 1
  for (int first = 0; first * S::kStageSlots < row.count; first += S::kValuesAhead)
#pragma unroll
    for (int ahead = 0; ahead < S::kValuesAhead; ++ahead) {
      const int stage = first + ahead;
      if (stage * S::kStageSlots >= row.count) break;
      if (stage > 0) {
        if (kMultiplies) wgmma_wait<(S::kStages > 2 ? 1 : 0)>();  // the stage that is written next has been read
        __syncthreads();
      }
      if (kMultiplies) {
        const uint32_t a = query + static_cast<uint32_t>(stage * S::kStageSlots * kHeads * 2);
        const uint32_t b = stages + static_cast<uint32_t>(stage % S::kStages * S::kStageBytes +
                                                          group * (S::kGroupChannels / 64) * S::kStageSlots * kRowBytes);
        const auto multiply = [&](int k) {
          WgmmaBf16Transposed<S::kGroupChannels>::multiply(
              values, matrix_descriptor(a + static_cast<uint32_t>(k * 16 * kHeads * 2), kHeads * 16, 128),
              transposed_descriptor(b + static_cast<uint32_t>(k * 16 * kRowBytes), S::kStageSlots * kRowBytes),
              stage + k > 0);
        };
        fence_async_proxy();
        wgmma_fence();
        if ((stage + 1) * S::kStageSlots <= units * 16) {
#pragma unroll
          for (int k = 0; k < S::kStageSlots / 16; ++k) multiply(k);
        } else {
#pragma unroll 1
          for (int k = 0; k < units - stage * (S::kStageSlots / 16); ++k) multiply(k);
        }
        wgmma_commit();
      }
      decode(stage + S::kDecodedAhead, (ahead + S::kDecodedAhead) % S::kValuesAhead);
    }
  if (kMultiplies) wgmma_wait<0>();
  __syncthreads();  // the denominators are there
  cluster_arrive();
  if (kMultiplies) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      // Rounded once: the remainder of a first quotient corrects it (Markstein).
      const float denominator = denominators[head + 8 * i], reciprocal = __frcp_rn(denominator);
      const auto quotient = [&](float value) {
        const float numerator = value * kStoredFactor, first = numerator * reciprocal;
        return reciprocal == 0 ? 0.0f : __fmaf_rn(__fmaf_rn(-first, denominator, numerator), reciprocal, first);
      };
      bf16* o = row_of(arguments.op.o, q_row) + (head + 8 * i) * kHeadDim + rank * S::kChannels +
                group * S::kGroupChannels + lane % 2 * 4 + lane % 4 / 2 * 2;
#pragma unroll
      for (int j = 0; j < S::kGroupChannels / 8; ++j) {
        // Channels i and i + 4 are here, the next two in the lane beside: i and i + 1 to one, i + 4 and i + 5 to the other.
        const __nv_bfloat162 two =
            __floats2bfloat162_rn(quotient(values[4 * j + 2 * i]), quotient(values[4 * j + 2 * i + 1]));
        const uint32_t mine = reinterpret_cast<const uint32_t&>(two), beside = __shfl_xor_sync(kAllLanes, mine, 1);
        *reinterpret_cast<uint32_t*>(o + 8 * j) =
            lane % 2 == 0 ? __byte_perm(mine, beside, 0x5410) : __byte_perm(beside, mine, 0x7632);
      }
    }
  }
  cluster_wait();  // what the others fetch from here has arrived
}

template <typename S>
__global__ void __launch_bounds__(kThreads, 1) attention(const Arguments arguments) {
  follow_previous_kernels();
  extern __shared__ std::byte unaligned[];
  __shared__ uint64_t barrier;
  std::byte* const memory = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  const uint32_t arrived = shared_address(&barrier);
  if (threadIdx.x == 0) {
    barrier_init(arrived, 1);
    barrier_fence_init();
  }
  int64_t q_row = 0;
  const Row row = begin_row(arguments, blockIdx.x / S::kBlocks, shared_address(memory) + S::kQuery,
                            reinterpret_cast<const uint8_t**>(memory + S::kRecords), q_row);
  if (uniform(static_cast<int>(threadIdx.x) / 128) < S::kGroups) {
    attend<S, true>(arguments, q_row, row, memory, arrived);
  } else {
    attend<S, false>(arguments, q_row, row, memory, arrived);
  }
}

template <typename S>
Status launch_shape(const Arguments& arguments, Stream stream) {
  return launch(attention<S>, "sm90_attention", dim3(blocks(arguments.list.rows * S::kBlocks)), kThreads, S::kBytes,
                stream, arguments, {.cluster = S::kBlocks, .early = true});
}

// Blocks, groups, slots, stages, slots of a stage, ahead.
using FewRows = Shape<8, 1, 96, 8, 96, 8, 8>;
using SomeRows = Shape<4, 2, 96, 4, 64, 2, 2>;
using ManyRows = Shape<2, 2, 160, 2, 64, 1, 1>;
using ManyWideRows = Shape<2, 2, 176, 2, 64, 1, 1>;

}  // namespace

Status sm90_attention(const SparseAttention& op, const SequenceList<AttentionSequence>& list, int64_t slots,
                      AttentionSpread spread, Stream stream) {
  DI_CHECK(op.heads == kHeads && op.head_dim == kHeadDim && slots <= kSm90AttentionSlots, "a step that this kernel takes");
  if (list.rows == 0) return {};
  const Arguments arguments{op, list, static_cast<float>(std::pow(kHeadDim, -0.5)) * kStoredFactor};
  switch (spread) {
    case AttentionSpread::kWide:
      return launch_shape<FewRows>(arguments, stream);
    case AttentionSpread::kMiddle:
      return launch_shape<SomeRows>(arguments, stream);
    case AttentionSpread::kNarrow:
      return slots <= ManyRows::kSlots ? launch_shape<ManyRows>(arguments, stream)
                                       : launch_shape<ManyWideRows>(arguments, stream);
  }
  return {};
}

}  // namespace deepinfer::cuda
