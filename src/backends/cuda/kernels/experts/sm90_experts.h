// Mixture of experts on Hopper, ops/moe.h: routed experts of FP4 weights, a shared one of FP8, all of one width.
//
// Order of a sum over K columns, for every number of rows and both formats: K is cut into chunks of 128 columns, the
// last one filled up with zeros, and two chunks after each other are a part (the last may be one).  In a part the
// tensor core adds 16 columns at a time, starting from zero, chunks in ascending order; step 2 j + h of the eight of a
// chunk, j from 0 to 3, adds the columns 32 t + 8 j + 2 h + i, t from 0 to 3 and i in {0, 1, 4, 5} (what a lane makes
// of a word of eight FP4 weights).  The sums of the parts are added in ascending order, starting from zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/launch/stream.h"
#include "base/status.h"
#include "ops/moe.h"

namespace deepinfer::cuda {

constexpr int kExpertChunk = 128;
constexpr int kExpertPartChunks = 2;
constexpr int kExpertMostParts = 20;
constexpr int64_t kExpertMostColumns = kExpertChunk * kExpertPartChunks * kExpertMostParts;

constexpr int expert_chunks(int64_t k) {
  return static_cast<int>((k + kExpertChunk - 1) / kExpertChunk);
}
constexpr int expert_parts(int64_t k) {
  return (expert_chunks(k) + kExpertPartChunks - 1) / kExpertPartChunks;
}

// The weights of an expert as the checkpoint has them.  All on 16-byte boundaries; scales may be read up to the next
// such boundary behind their end.
struct ExpertPointers {
  const uint8_t *w1, *w1_scale, *w3, *w3_scale, *w2, *w2_scale;
};

struct Experts {
  MatrixView<const bf16> x;                 // [rows, d], rows on 16-byte boundaries
  MatrixView<const int32_t> expert;         // [rows, top_k]
  MatrixView<const float> weight;           // [rows, top_k]
  const ExpertPointers* experts = nullptr;  // [expert_count], device memory
  int expert_count = 0;
  ExpertPointers shared = {};  // w1 null: none
  int64_t width = 0;           // hidden units of an expert, a multiple of 32
  float limit = 0;
  int64_t heavy_rows = 0;  // experts with so many rows, the shared one too, are left to the kernels for many
  // Scratch, 16-byte aligned.  Row `choice` = row * top_k + place of a routed expert, rows * top_k + row of the shared.
  float* hidden = nullptr;  // [rows * (top_k + 1), width]: the activations before FP8 rounding
  bf16* outputs = nullptr;  // [rows * (top_k + 1), d]: each expert's output
  MatrixView<bf16> y;       // [rows, d]
};

// Few rows: reads every weight of the chosen experts that are not heavy once while none has more than 8 rows, and stays
// right beyond.
constexpr int64_t kExpertFewRows = 256;
constexpr int64_t kExpertFewChoices = 2048;
constexpr int kExpertFewMostExperts = 512;
Status sm90_expert_hidden_few(const Experts& experts, Stream stream);
Status sm90_expert_output_few(const Experts& experts, Stream stream);

// Many rows: all heavy experts, matrices for widths that are multiples of 128 and d that is one of 256.  Rows are
// listed by expert in groups of 8 and taken in tiles of at most 128.
constexpr int kTileRows = 128;
struct ExpertTile {
  int expert;       // expert_count: the shared one
  int first_group;  // of 8 rows
  int rows;
  int expert_first, expert_tiles;  // all tiles of the same expert
};
struct ExpertTileCounts {
  int groups, routed_tiles, shared_tiles;
};
constexpr int64_t expert_most_groups(int64_t rows, int64_t top_k, int64_t experts) {
  return (rows * top_k) / 8 + (rows * top_k < experts ? rows * top_k : experts) + (rows + 7) / 8;
}
constexpr int64_t expert_most_tiles(int64_t rows, int64_t top_k, int64_t experts) {
  return (rows * top_k) / kTileRows + (rows * top_k < experts ? rows * top_k : experts) +
         (rows + kTileRows - 1) / kTileRows;
}
// Scratch; groups: expert_most_groups.
struct ExpertTiles {
  ExpertTileCounts* counts = nullptr;
  ExpertTile* tiles = nullptr;  // [expert_most_tiles]: routed experts', ascending, then the shared one's
  int32_t* choice = nullptr;    // [groups * 8]: Experts' `choice`, -1 behind an expert's last
  std::byte* x = nullptr;       // [groups * 8, d] bf16 as expert_image.cuh has rows; 128-byte aligned
  std::byte* hidden = nullptr;  // [groups * 8, width], likewise
};
bool sm90_experts_many_takes(int64_t d, int64_t width);
// Lists the choices, and gathers the rows of x.
Status sm90_list_expert_tiles(const Experts& experts, const ExpertTiles& tiles, Stream stream);
// Experts' `hidden` is not looked at.
Status sm90_expert_hidden_many(const Experts& experts, const ExpertTiles& tiles, Stream stream);
Status sm90_expert_output_many(const Experts& experts, const ExpertTiles& tiles, Stream stream);

// y = bf16( 0 + outputs of a row in ascending expert + shared ).
Status sm90_combine_experts(const Experts& experts, Stream stream);

}  // namespace deepinfer::cuda
