// ReferenceOps: the free functions of reference.h behind the Ops interface.
#include "ops/reference/reference.h"

namespace deepinfer {
namespace {

class ReferenceOps final : public Ops {
 public:
  std::string_view name() const override { return "reference"; }
  Status prepare(const OpsLimits&) override { return {}; }  // scratch memory is allocated call by call

  void embed_tokens(const EmbedTokens& op) override { reference::embed_tokens(op); }
  void rms_norm(const RmsNorm& op) override { reference::rms_norm(op); }
  void rope(const Rope& op) override { reference::rope(op); }
  void quantize_activation(const QuantizeActivation& op) override { reference::quantize_activation(op); }
  void matmul(const Matmul& op) override { reference::matmul(op); }
  void grouped_matmul(const GroupedMatmul& op) override { reference::grouped_matmul(op); }

  void hyper_connection_mix(const HyperConnectionMix& op) override { reference::hyper_connection_mix(op); }
  void hyper_connection_collapse(const HyperConnectionCollapse& op) override {
    reference::hyper_connection_collapse(op);
  }
  void hyper_connection_expand(const HyperConnectionExpand& op) override { reference::hyper_connection_expand(op); }
  void hyper_connection_mean(const HyperConnectionMean& op) override { reference::hyper_connection_mean(op); }

  void engram_gather(const EngramGather& op) override { reference::engram_gather(op); }
  void engram_mix(const EngramMix& op) override { reference::engram_mix(op); }

  void make_window_records(const MakeWindowRecords& op) override { reference::make_window_records(op); }
  void commit_window(const CommitWindow& op) override { reference::commit_window(op); }
  void compress_pairs(const CompressPairs& op) override { reference::compress_pairs(op); }
  void store_compressed(const StoreCompressed& op) override { reference::store_compressed(op); }
  void store_index_keys(const StoreIndexKeys& op) override { reference::store_index_keys(op); }
  void make_index_queries(const MakeIndexQueries& op) override { reference::make_index_queries(op); }
  void index_topk(const IndexTopk& op) override { reference::index_topk(op); }
  void sparse_attention(const SparseAttention& op) override { reference::sparse_attention(op); }

  void route(const Route& op) override { reference::route(op); }
  void mixture_of_experts(const MixtureOfExperts& op) override { reference::mixture_of_experts(op); }

  void add_rows(const AddRows& op) override { reference::add_rows(op); }
  void sample(const Sample& op) override { reference::sample(op); }
};

}  // namespace

std::unique_ptr<Ops> make_reference_ops() {
  return std::make_unique<ReferenceOps>();
}

}  // namespace deepinfer
