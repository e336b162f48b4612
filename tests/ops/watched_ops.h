// WatchedOps: another backend that is looked at while it works: which experts and cached rows were chosen, in the order
// of the calls.  For tests that compare what an engine reports with what was really used.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ops/ops.h"

namespace deepinfer {

class WatchedOps : public Ops {
 public:
  using Rows = std::vector<std::vector<int32_t>>;  // of one call

  explicit WatchedOps(std::unique_ptr<Ops> ops) : ops_(std::move(ops)) {}

  std::vector<Rows> routes, selections;

  std::string_view name() const override { return ops_->name(); }
  Memory& memory() override { return ops_->memory(); }
  Memory& reachable_host_memory() override { return ops_->reachable_host_memory(); }
  Status health() override { return ops_->health(); }
  void bind_caller() override { ops_->bind_caller(); }
  Status prepare(const OpsLimits& limits) override { return ops_->prepare(limits); }
  void route(const Route& op) override {
    ops_->route(op);
    routes.push_back(rows_of(op.expert));
  }
  void index_topk(const IndexTopk& op) override {
    ops_->index_topk(op);
    selections.push_back(rows_of(op.selected));
  }

#define DI_FORWARD(method, Operation)         \
  void method(const Operation& op) override { \
    ops_->method(op);                         \
  }
  DI_FORWARD(embed_tokens, EmbedTokens)
  DI_FORWARD(gather_rows, GatherRows)
  DI_FORWARD(rms_norm, RmsNorm)
  DI_FORWARD(rope, Rope)
  DI_FORWARD(quantize_activation, QuantizeActivation)
  DI_FORWARD(matmul, Matmul)
  DI_FORWARD(grouped_matmul, GroupedMatmul)
  DI_FORWARD(hyper_connection_mix, HyperConnectionMix)
  DI_FORWARD(hyper_connection_collapse, HyperConnectionCollapse)
  DI_FORWARD(hyper_connection_expand, HyperConnectionExpand)
  DI_FORWARD(hyper_connection_mean, HyperConnectionMean)
  DI_FORWARD(engram_gather, EngramGather)
  DI_FORWARD(engram_mix, EngramMix)
  DI_FORWARD(make_window_records, MakeWindowRecords)
  DI_FORWARD(commit_window, CommitWindow)
  DI_FORWARD(compress_pairs, CompressPairs)
  DI_FORWARD(store_compressed, StoreCompressed)
  DI_FORWARD(store_index_keys, StoreIndexKeys)
  DI_FORWARD(make_index_queries, MakeIndexQueries)
  DI_FORWARD(sparse_attention, SparseAttention)
  DI_FORWARD(mixture_of_experts, MixtureOfExperts)
  DI_FORWARD(add_rows, AddRows)
  DI_FORWARD(sample, Sample)
#undef DI_FORWARD

 private:
  static Rows rows_of(const MatrixView<int32_t>& m) {
    Rows rows;
    for (int64_t i = 0; i < m.rows; ++i) rows.emplace_back(m.row(i), m.row(i) + m.columns);
    return rows;
  }

  std::unique_ptr<Ops> ops_;
};

}  // namespace deepinfer
