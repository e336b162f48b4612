// Activations: all scratch memory of a step, planned once from the config and the step limits.  Owned by the forward
// pass. d hidden size, c copies of the residual stream; matrices have as many rows as the largest step.  All lie in the
// backend's memory but those of HostScratch.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "models/deepseek_v41/config.h"
#include "models/model.h"
#include "tensor/buffer.h"
#include "tensor/matrix.h"

namespace deepinfer::deepseek_v41 {

// Row i of each of these is the same token, and ActiveRows numbers them.
struct StepRows {
  MatrixView<int32_t> id;          // [rows, 1]
  MatrixView<int64_t> position;    // [rows, 1]
  MatrixView<bf16> streams;        // [rows, c * d]
  MatrixView<float> pre;           // [rows, c]: the mix that the next sublayer's input is made with
  MatrixView<bf16> x;              // [rows, d]: a sublayer's normed input
  MatrixView<bf16> quantized;      // [rows, d]: x rounded to FP8
  MatrixView<bf16> taps;           // [rows, taps * d]
  MatrixView<int32_t> selected;    // [rows, index_topk]: compressed rows, of the latest layer that chose
  MatrixView<int32_t> candidates;  // [rows, candidate_topk_blocks]
};

struct SiteScratch {           // of a sublayer; lives beside all others
  MatrixView<bf16> y;          // [rows, d]
  MatrixView<float> site_pre;  // [rows, c]
  MatrixView<float> post;      // [rows, c]
  MatrixView<float> comb;      // [rows, c * c]
};

struct AttentionScratch {
  MatrixView<bf16> kv;                // [rows, head_dim]
  MatrixView<uint8_t> records;        // [rows, window record]
  MatrixView<float> value;            // [rows, head_dim]: compressor of ratio 2
  MatrixView<float> gate;             // [rows, head_dim]
  MatrixView<bf16> latent;            // [rows, head_dim]
  MatrixView<bf16> index_key;         // [rows, index_head_dim]
  MatrixView<bf16> qr;                // [rows, q_lora_rank]
  MatrixView<bf16> q;                 // [rows, heads * head_dim]
  MatrixView<bf16> index_q;           // [rows, index heads * index_head_dim]
  MatrixView<uint8_t> index_records;  // [rows, index heads * index record]
  MatrixView<bf16> index_weights;     // [rows, index heads]
  MatrixView<bf16> o;                 // [rows, heads * head_dim]
  MatrixView<bf16> a;                 // [rows, o_groups * o_lora_rank]
};

struct FeedForwardScratch {
  MatrixView<int32_t> expert;  // [rows, experts per token]
  MatrixView<float> weight;    // [rows, experts per token]
};

struct EngramScratch {
  MatrixView<bf16> e;   // [rows, lookups * engram_head_dim]
  MatrixView<bf16> kv;  // [rows, (c + 1) * d]
};

struct DraftScratch {            // block rows: sequences * dspark_block_size
  MatrixView<bf16> main;         // [rows, d]: of the draft context
  MatrixView<bf16> features;     // [block rows, d + rank]: collapsed stream and Markov embedding
  MatrixView<bf16> normed;       // [block rows, d]
  MatrixView<float> logits;      // [block rows, vocabulary]
  MatrixView<float> bias;        // [sequences, vocabulary]
  MatrixView<int32_t> previous;  // [sequences, 1]
  MatrixView<float> confidence;  // [block rows, 1]
};

struct HostScratch {                   // in the host's memory: what a step is told, and what it tells
  MatrixView<int32_t> id;              // [rows, 1]
  MatrixView<int64_t> position;        // [rows, 1]
  MatrixView<int32_t> engram_class;    // [rows + look-back, 1]
  MatrixView<int64_t> engram_row;      // [rows, lookups]
  MatrixView<int32_t> chosen;          // [rows, most experts or rows that a layer chooses]
  MatrixView<int32_t> draft_previous;  // [sequences, 1]
  MatrixView<int32_t> draft_token;     // [sequences, block]
  MatrixView<float> draft_confidence;  // [block rows, 1]
};

struct Activations {
  StepRows step;
  SiteScratch site;
  AttentionScratch attention;  // these three never live together
  FeedForwardScratch feed_forward;
  EngramScratch engram;
  DraftScratch draft;
  MatrixView<float> logits;                // [logit rows, vocabulary]
  MatrixView<float> plain_frequencies;     // [1, rope dim / 2]: of layers of ratio 0
  MatrixView<float> compress_frequencies;  // of all others
  HostScratch host;

  Buffer memory, of_host;

  // kResourceExhausted when there is no room.
  static Result<Activations> plan(const Config& config, const StepLimits& limits, Memory& memory);
};

}  // namespace deepinfer::deepseek_v41
