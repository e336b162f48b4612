// TimedOps: an Ops that passes everything on to another one and notes where the time goes.
// For benchmarks; a call costs two clock reads more, and of a device it also waits for the end of each operation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ops/ops.h"

namespace deepinfer::bench {

struct OpTime {
  std::string name;  // of the operation; of a matrix product also its format and shape
  int64_t calls = 0;
  double seconds = 0;
  int64_t multiply_adds = 0;  // of matrix products, attention, row choice and hyper-connection mixing
  int64_t weight_bytes = 0;   // of matrix products: bytes of the weights used, each expert once a call
  // Of a device neither counts what depends on choices made there.
};

class TimedOps : public Ops {
 public:
  explicit TimedOps(Ops& ops) : ops_(ops) {}

  void clear() { times_.clear(); }
  // Since clear(), the longest first.
  std::vector<OpTime> times() const;

  std::string_view name() const override { return ops_.name(); }
  Memory& memory() override { return ops_.memory(); }
  Memory& reachable_host_memory() override { return ops_.reachable_host_memory(); }
  Status health() override { return ops_.health(); }
  Status prepare(const OpsLimits& limits) override { return ops_.prepare(limits); }
  void bind_caller() override { ops_.bind_caller(); }
  void embed_tokens(const EmbedTokens&) override;
  void gather_rows(const GatherRows&) override;
  void rms_norm(const RmsNorm&) override;
  void rope(const Rope&) override;
  void quantize_activation(const QuantizeActivation&) override;
  void matmul(const Matmul&) override;
  void grouped_matmul(const GroupedMatmul&) override;
  void hyper_connection_mix(const HyperConnectionMix&) override;
  void hyper_connection_collapse(const HyperConnectionCollapse&) override;
  void hyper_connection_expand(const HyperConnectionExpand&) override;
  void hyper_connection_mean(const HyperConnectionMean&) override;
  void engram_gather(const EngramGather&) override;
  void engram_mix(const EngramMix&) override;
  void make_window_records(const MakeWindowRecords&) override;
  void commit_window(const CommitWindow&) override;
  void compress_pairs(const CompressPairs&) override;
  void store_compressed(const StoreCompressed&) override;
  void store_index_keys(const StoreIndexKeys&) override;
  void make_index_queries(const MakeIndexQueries&) override;
  void index_topk(const IndexTopk&) override;
  void sparse_attention(const SparseAttention&) override;
  void route(const Route&) override;
  void mixture_of_experts(const MixtureOfExperts&) override;
  void add_rows(const AddRows&) override;
  void sample(const Sample&) override;

 private:
  template <typename Call>
  OpTime& time(std::string_view name, int64_t weight_bytes, Call&& call);

  Ops& ops_;
  std::map<std::string, OpTime, std::less<>> times_;
};

}  // namespace deepinfer::bench
