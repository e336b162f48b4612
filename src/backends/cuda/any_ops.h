// AnyOps: every operation by the any_ kernels, and the base of paths that have kernels of their own for some.  Files:
// any_ops.cpp (memory, rows, products, experts), any_ops_lists.cpp (operations over sequences), any_ops_sample.cpp.
//
// Kernels are recorded and put on the stream together, at sample(), health() and the calls of Memory.
//
// The first error of the device stays: later operations do nothing, health() tells it.
#pragma once

#include <string_view>
#include <vector>

#include "backends/cuda/kernels/products/products.h"
#include "backends/cuda/launch/device_buffer.h"
#include "backends/cuda/launch/device_memory.h"
#include "backends/cuda/launch/launch_list.h"
#include "backends/cuda/launch/pinned_memory.h"
#include "backends/cuda/launch/sequence_list.h"
#include "backends/cuda/launch/stream.h"
#include "backends/cuda/launch/upload_ring.h"
#include "ops/ops.h"

namespace deepinfer::cuda {

struct SelectionKernels;

class AnyOps : public Ops {
 public:
  AnyOps() = default;
  ~AnyOps() override;
  // Before everything else: the stream.  use_graphs: steps that come again run as graphs and launches overlap
  // (launch/launch_list.h); the bits are the same either way.  memory_share: of the device's memory that may be in use,
  // (0, 1].
  Status open(bool use_graphs = true, double memory_share = 1);
  LaunchCounts launch_counts() { return launches_.counts(); }

  std::string_view name() const override { return "cuda/any"; }
  Status prepare(const OpsLimits& limits) override;
  Memory& memory() override { return memory_; }
  Memory& reachable_host_memory() override { return pinned_; }
  Status health() override;

  void embed_tokens(const EmbedTokens& op) override;
  void gather_rows(const GatherRows& op) override;
  void rms_norm(const RmsNorm& op) override;
  void rope(const Rope& op) override;
  void quantize_activation(const QuantizeActivation& op) override;
  void matmul(const Matmul& op) override;
  void grouped_matmul(const GroupedMatmul& op) override;
  void hyper_connection_mix(const HyperConnectionMix& op) override;
  void hyper_connection_collapse(const HyperConnectionCollapse& op) override;
  void hyper_connection_expand(const HyperConnectionExpand& op) override;
  void hyper_connection_mean(const HyperConnectionMean& op) override;
  void engram_gather(const EngramGather& op) override;
  void engram_mix(const EngramMix& op) override;
  void make_window_records(const MakeWindowRecords& op) override;
  void commit_window(const CommitWindow& op) override;
  void compress_pairs(const CompressPairs& op) override;
  void store_compressed(const StoreCompressed& op) override;
  void store_index_keys(const StoreIndexKeys& op) override;
  void make_index_queries(const MakeIndexQueries& op) override;
  void index_topk(const IndexTopk& op) override;
  void sparse_attention(const SparseAttention& op) override;
  void route(const Route& op) override;
  void mixture_of_experts(const MixtureOfExperts& op) override;
  void add_rows(const AddRows& op) override;
  void sample(const Sample& op) override;

 protected:
  bool well() const { return status_.ok(); }
  void note(Status status) {
    if (status_.ok() && !status.ok()) status_ = std::move(status);
  }
  Stream stream() const { return stream_; }
  // Every dense product, the router's too; what it gets is checked.
  virtual Status product(const Product& product);
  void join() { launches_.join(); }  // the next kernel waits for everything that is made beside

  // sparse_attention and index_topk of the sequences that one list holds.  window_rows: of a row, at most.
  virtual Status attend(const SparseAttention& op, const SequenceList<AttentionSequence>& list, int64_t window_rows);
  virtual Status select(const IndexTopk& op, const SequenceList<IndexSequence>& list, int64_t most_visible);
  Status select_by(const SelectionKernels& kernels, const IndexTopk& op, const SequenceList<IndexSequence>& list,
                   int64_t most_visible);

 private:
  template <typename Sequence, typename BlocksOf, typename Launch>
  void for_lists(const Sequence* sequences, int count, BlocksOf blocks_of, Launch launch);
  // Table rows of tokens [first, first + count), gathered by the processor or by a kernel.
  Status send_engram(const EngramGather& op, int64_t first, int64_t count);
  Status gather_engram(const EngramGather& op, int64_t first, int64_t count);
  Status run_experts(const MixtureOfExperts& op);
  Status sample_rows(const Sample& op, int64_t first, int64_t count, int64_t bytes);

  Status status_;
  Stream stream_;
  LaunchList launches_;
  DeviceMemory memory_;
  PinnedMemory pinned_;
  UploadRing ring_;
  DeviceBuffer mix_, scores_, choices_, hidden_, outputs_;  // of rows: mHC, router, experts
  DeviceBuffer attention_;                                  // of a part of a step's rows, kScratch bytes or one row
  DeviceBuffer selection_;                                  // likewise
  DeviceBuffer raw_logits_, sampled_;                       // of kSampleRows rows
  std::vector<TokenLogprob> top_;                           // as many as sampled_ holds
};

}  // namespace deepinfer::cuda
