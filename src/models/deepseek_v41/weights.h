// Weights: the checkpoint's tensors as typed views, grouped by who uses them.  Nothing is copied: every pointer points
// into the mapped files (or the buffers) of a Checkpoint, which must outlive this.  Filled by bind_weights (tensors.h).
#pragma once

#include <vector>

#include "ops/engram.h"
#include "ops/hyper_connection.h"
#include "ops/linear.h"
#include "ops/moe.h"
#include "tensor/dtype.h"
#include "tensor/matrix.h"

namespace deepinfer::deepseek_v41 {

struct CompressorWeights {     // of a KV source
  LinearWeight wkv;            // bf16 [head_dim, d]
  LinearWeight wgate;          // bf16 [head_dim, d]; empty for ratio 1
  const bf16* norm = nullptr;  // [head_dim]
};

struct IndexerWeights {            // of a layer that chooses rows
  LinearWeight wq_b;               // FP8 [heads * index_head_dim, q_lora_rank]
  LinearWeight weights_proj;       // bf16 [heads, d]
  LinearWeight wk;                 // bf16 [index_head_dim, head_dim]; KV sources only
  const bf16* key_norm = nullptr;  // [index_head_dim]; KV sources only
};

struct AttentionWeights {
  const bf16* input_norm = nullptr;  // [d]
  const bf16* q_norm = nullptr;      // [q_lora_rank]
  const bf16* kv_norm = nullptr;     // [head_dim]
  const float* sink = nullptr;       // [heads]
  LinearWeight wq_a;                 // FP8 [q_lora_rank, d]
  LinearWeight wq_b;                 // FP8 [heads * head_dim, q_lora_rank]
  LinearWeight wkv;                  // FP8 [head_dim, d]
  LinearWeight wo_a;                 // FP8 [o_groups * o_lora_rank, heads * head_dim / o_groups]
  LinearWeight wo_b;                 // FP8 [d, o_groups * o_lora_rank]
  CompressorWeights compressor;
  IndexerWeights indexer;
};

struct FeedForwardWeights {
  const bf16* input_norm = nullptr;   // [d]
  LinearWeight gate;                  // bf16 [experts, d]
  const float* bias = nullptr;        // [experts]
  const float* bias_image = nullptr;  // [experts]
  std::vector<ExpertWeights> experts;
  ExpertWeights shared;
};

struct EngramWeights {
  EngramTable table;
  LinearWeight wkv;                    // FP8 [(c + 1) * d, lookups * head_dim]
  const bf16* query_weight = nullptr;  // [c, d]
  const bf16* key_weight = nullptr;    // [c, d]
};

struct LayerWeights {
  HyperConnectionWeights attention_mix;
  HyperConnectionWeights feed_forward_mix;
  AttentionWeights attention;
  FeedForwardWeights feed_forward;
};

struct DraftWeights {
  LinearWeight main_proj;               // FP8 [d, taps * d]
  const bf16* main_norm = nullptr;      // [d]
  const bf16* norm = nullptr;           // [d]
  MatrixView<const bf16> markov_embed;  // [vocabulary, rank]
  LinearWeight markov_head;             // bf16 [vocabulary, rank]
  LinearWeight confidence;              // bf16 [1, d + rank]
};

struct Weights {
  MatrixView<const bf16> embed;        // [vocabulary, d]
  LinearWeight head;                   // bf16 [vocabulary, d]
  const bf16* norm = nullptr;          // [d]
  std::vector<LayerWeights> layers;    // backbone, then draft stages
  std::vector<EngramWeights> engrams;  // one for each of engram_layer_ids
  DraftWeights draft;
};

}  // namespace deepinfer::deepseek_v41
