#include "models/deepseek_v41/activations.h"

#include <algorithm>

#include "models/deepseek_v41/scratch_arena.h"
#include "tensor/formats.h"

namespace deepinfer::deepseek_v41 {
namespace {

void lay_out(const Config& c, const StepLimits& limits, ScratchArena& arena, Activations& a) {
  const int64_t block = c.dspark_block_size;
  const int64_t block_rows = limits.sequences * block;
  const int64_t rows = std::max(limits.rows, block_rows);
  const int64_t d = c.hidden_size;
  const int64_t copies = c.hc_mult;
  const int64_t wide = int64_t{c.num_attention_heads} * c.head_dim;

  a.step.id = arena.matrix<int32_t>(rows, 1);
  a.step.position = arena.matrix<int64_t>(rows, 1);
  a.step.streams = arena.matrix<bf16>(rows, copies * d);
  a.step.pre = arena.matrix<float>(rows, copies);
  a.step.x = arena.matrix<bf16>(rows, d);
  a.step.quantized = arena.matrix<bf16>(rows, d);
  a.step.taps = arena.matrix<bf16>(rows, static_cast<int64_t>(c.dspark_target_layer_ids.size()) * d);
  a.step.selected = arena.matrix<int32_t>(rows, c.index_source_layer_ids.empty() ? 0 : c.index_topk);
  a.step.candidates = arena.matrix<int32_t>(rows, c.candidate_source_layer_id ? c.candidate_topk_blocks : 0);

  a.site.y = arena.matrix<bf16>(rows, d);
  a.site.site_pre = arena.matrix<float>(rows, copies);
  a.site.post = arena.matrix<float>(rows, copies);
  a.site.comb = arena.matrix<float>(rows, copies * copies);
  a.logits = arena.matrix<float>(limits.logit_rows, c.vocab_size);
  a.draft.features = arena.matrix<bf16>(block_rows, d + c.dspark_markov_rank);
  a.draft.normed = arena.matrix<bf16>(block_rows, d);
  a.draft.logits = arena.matrix<float>(block_rows, c.vocab_size);
  a.draft.bias = arena.matrix<float>(block > 0 ? limits.sequences : 0, c.vocab_size);
  a.draft.previous = arena.matrix<int32_t>(limits.sequences, 1);
  a.draft.confidence = arena.matrix<float>(block_rows, 1);
  a.draft.main = arena.matrix<bf16>(block > 0 ? rows : 0, d);
  a.plain_frequencies = arena.matrix<float>(1, c.qk_rope_head_dim / 2);
  a.compress_frequencies = arena.matrix<float>(1, c.qk_rope_head_dim / 2);

  const uint64_t sublayer = arena.mark();
  const int64_t index_wide = int64_t{c.index_n_heads} * c.index_head_dim;
  a.attention.kv = arena.matrix<bf16>(rows, c.head_dim);
  a.attention.records = arena.matrix<uint8_t>(rows, fp8_record_bytes(c.head_dim));
  a.attention.value = arena.matrix<float>(rows, c.head_dim);
  a.attention.gate = arena.matrix<float>(rows, c.head_dim);
  a.attention.latent = arena.matrix<bf16>(rows, c.head_dim);
  a.attention.index_key = arena.matrix<bf16>(rows, c.index_head_dim);
  a.attention.qr = arena.matrix<bf16>(rows, c.q_lora_rank);
  a.attention.q = arena.matrix<bf16>(rows, wide);
  a.attention.index_q = arena.matrix<bf16>(rows, index_wide);
  a.attention.index_records = arena.matrix<uint8_t>(rows, c.index_n_heads * index_record_bytes(c.index_head_dim));
  a.attention.index_weights = arena.matrix<bf16>(rows, c.index_n_heads);
  a.attention.o = arena.matrix<bf16>(rows, wide);
  a.attention.a = arena.matrix<bf16>(rows, c.o_groups * c.o_lora_rank);

  arena.rewind(sublayer);
  const int per_token = std::max(c.num_experts_per_tok, c.dspark_num_experts_per_tok);
  a.feed_forward.expert = arena.matrix<int32_t>(rows, per_token);
  a.feed_forward.weight = arena.matrix<float>(rows, per_token);

  arena.rewind(sublayer);
  if (!c.engram_layer_ids.empty()) {
    a.engram.e = arena.matrix<bf16>(rows, c.engram_lookups() * c.engram_head_dim);
    a.engram.kv = arena.matrix<bf16>(rows, (copies + 1) * d);
  }
}

void lay_out_host(const Config& c, const StepLimits& limits, ScratchArena& arena, HostScratch& host) {
  const int64_t block = c.dspark_block_size;
  const int64_t block_rows = limits.sequences * block;
  const int64_t rows = std::max(limits.rows, block_rows);
  host.id = arena.matrix<int32_t>(rows, 1);
  host.position = arena.matrix<int64_t>(rows, 1);
  if (!c.engram_layer_ids.empty()) {
    host.engram_class = arena.matrix<int32_t>(rows + c.engram_max_ngram_size - 1, 1);
    host.engram_row = arena.matrix<int64_t>(rows, c.engram_lookups());
  }
  host.chosen =
      arena.matrix<int32_t>(rows, std::max({c.index_topk, c.num_experts_per_tok, c.dspark_num_experts_per_tok}));
  host.draft_previous = arena.matrix<int32_t>(limits.sequences, 1);
  host.draft_token = arena.matrix<int32_t>(limits.sequences, block);
  host.draft_confidence = arena.matrix<float>(block_rows, 1);
}

// Lays out twice: once to measure, once in memory of that size.
template <typename LayOut>
Result<Buffer> laid_out(Memory& memory, LayOut lay_out) {
  ScratchArena measure(nullptr);
  lay_out(measure);
  DI_ASSIGN_OR_RETURN(Buffer buffer, Buffer::allocate(measure.bytes(), memory));
  ScratchArena arena(buffer.data());
  lay_out(arena);
  return buffer;
}

}  // namespace

Result<Activations> Activations::plan(const Config& config, const StepLimits& limits, Memory& memory) {
  Activations a;
  DI_ASSIGN_OR_RETURN(a.memory, laid_out(memory, [&](ScratchArena& arena) { lay_out(config, limits, arena, a); }));
  DI_ASSIGN_OR_RETURN(
      a.of_host, laid_out(host_memory(), [&](ScratchArena& arena) { lay_out_host(config, limits, arena, a.host); }));
  return a;
}

}  // namespace deepinfer::deepseek_v41
