// Steps: every operation of the CPU backend that is no matrix product.  CpuOps owns one and forwards to it; the
// operations' contracts are in ops/*.h.  The bits do not depend on rows, threads or chunks.
//
// Each operation is a driver (here, split by rows, key ranges or channel ranges) over the kernels of one instruction
// set (kernels.h).  prepare() sizes all scratch; operations do not allocate.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/steps/best_rows.h"
#include "backends/cpu/steps/kernels.h"
#include "backends/cpu/steps/rotation_cache.h"
#include "base/thread_pool.h"
#include "ops/ops.h"
#include "tensor/buffer.h"

namespace deepinfer::cpu {

const StepKernels& step_kernels(CpuIsa isa);
const AttentionKernels* wide_attention_kernels(CpuIsa isa);  // or null

class Steps {
 public:
  // All outlive this object.  wide_attention: in place of the kernels' own where heads come in its multiples, or are
  // few.
  Steps(ThreadPool& pool, const StepKernels& kernels, const AttentionKernels* wide_attention = nullptr)
      : pool_(pool), kernels_(kernels), wide_attention_(wide_attention) {}

  Status prepare(const OpsLimits& limits);

  void embed_tokens(const EmbedTokens& op);
  void rms_norm(const RmsNorm& op);
  void rope(const Rope& op);
  void quantize_activation(const QuantizeActivation& op);
  void hyper_connection_mix(const HyperConnectionMix& op);
  void hyper_connection_collapse(const HyperConnectionCollapse& op);
  void hyper_connection_expand(const HyperConnectionExpand& op);
  void hyper_connection_mean(const HyperConnectionMean& op);
  void engram_gather(const EngramGather& op);
  void engram_mix(const EngramMix& op);
  void make_window_records(const MakeWindowRecords& op);
  void commit_window(const CommitWindow& op);
  void compress_pairs(const CompressPairs& op);
  void store_compressed(const StoreCompressed& op);
  void store_index_keys(const StoreIndexKeys& op);
  void make_index_queries(const MakeIndexQueries& op);
  void index_topk(const IndexTopk& op);
  void sparse_attention(const SparseAttention& op);
  void add_rows(const AddRows& op);
  void sample(const Sample& op);

 private:
  struct AttentionLayout;
  struct IndexScratch;
  struct SampleScratch;

  Status prepare_mix(const OpsLimits& limits);
  Status prepare_attention(const OpsLimits& limits);
  Status prepare_index(const OpsLimits& limits);
  Status prepare_sample(const OpsLimits& limits);

  bool wide_keys() const;
  bool rows_share_tiles(int heads) const;
  const AttentionKernels& attention_kernels(int heads) const;
  AttentionRow attention_row(const SparseAttention& op, int64_t m, int64_t count, int64_t slot);
  void attend_row(const SparseAttention& op, const AttentionSequence& sequence, int64_t offset, int64_t slot);
  AttentionLayout attention_layout() const;
  bool attend_group(const SparseAttention& op, const AttentionSequence& sequence, int64_t offset, int64_t rows,
                    int64_t slot);
  bool attend_tiles(const SparseAttention& op, const AttentionSequence& sequence, int64_t offset, int64_t rows,
                    int64_t slot);
  void attend_few_rows(const SparseAttention& op, int64_t rows);

  IndexScratch index_scratch(int64_t thread);
  void unpack_queries(const IndexTopk& op, int64_t first, int64_t rows, IndexScratch& scratch);
  void select_rows(const IndexTopk& op, const IndexSequence& sequence, int64_t offset, int64_t rows, int thread);
  void score_blocks(const IndexTopk& op, const IndexSequence& sequence, int64_t offset, const IndexQueryView& query,
                    int64_t begin, int64_t end, BestRows& best);
  void select_from_pool(const IndexTopk& op, const IndexSequence& sequence, int64_t offset, int thread);
  void select_from_long_pool(const IndexTopk& op, const IndexSequence& sequence, int64_t offset);
  void select_long_rows(const IndexTopk& op, const IndexSequence& sequence, int64_t offset, int64_t rows);
  void score_keys(const IndexTopk& op, const IndexSequence& sequence, int64_t offset, int64_t rows,
                  const IndexScratch& queries, int64_t begin, int64_t end, RowSelection* selections);

  SampleScratch sample_scratch(int thread);
  // Everything before the choice; false if no token may be drawn.
  bool filter_row(const SamplingRow& row, float* z, int64_t vocabulary, SampleScratch scratch, DrawRequest& request);
  // DraftTest of ops/sample.h; false where only a plain draw is left.
  bool test_draft(const SamplingRow& row, const float* z, int64_t vocabulary, const DrawRequest& request,
                  SampleScratch scratch, SampledRow& result);
  void write_logprobs(const SamplingRow& row, const float* z, int64_t vocabulary, const DrawRequest& request,
                      bool everywhere, SampleScratch scratch, SampledRow& result, TokenLogprob* top);

  ThreadPool& pool_;
  const StepKernels& kernels_;
  const AttentionKernels* wide_attention_;
  OpsLimits limits_;
  RotationCache rotations_;

  int64_t mix_chunks_ = 0;
  Buffer mix_partials_;

  int64_t attention_keys_ = 0;  // most visible rows of one query
  int64_t attention_slots_ = 0;
  int64_t group_heads_ = 0;  // most heads of a group of rows together
  Buffer attention_;

  int64_t index_bytes_ = 0;  // of a thread
  Buffer index_;
  std::vector<RowSelection> selections_;  // [threads][rows of a block]

  Buffer sample_;
  std::vector<DrawRequest> requests_;  // [rows fewer than threads]
  std::vector<DrawResult> draws_;      // [rows fewer than threads][parts of the vocabulary]
};

}  // namespace deepinfer::cpu
