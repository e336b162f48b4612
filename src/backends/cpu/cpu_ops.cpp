#include "backends/cpu/cpu_ops.h"

#include <string>
#include <utility>

#include "backends/cpu/isa.h"
#include "backends/cpu/products/products.h"
#include "backends/cpu/steps/steps.h"

namespace deepinfer {
namespace {

// Forwards each step to its driver: products/ owns matrix products, routing and experts, steps/ the rest.
class CpuOps final : public Ops {
 public:
  CpuOps(CpuIsa isa, const ThreadPoolOptions& threads)
      : name_("cpu/" + std::string(to_string(isa))),
        pool_(threads),
        products_(cpu::product_kernels(isa), pool_),
        steps_(pool_, cpu::step_kernels(isa), cpu::wide_attention_kernels(isa)) {}

  int threads() const { return pool_.threads(); }
  std::string_view name() const override { return name_; }
  Status prepare(const OpsLimits& limits) override {
    DI_RETURN_IF_ERROR(products_.prepare(limits));
    return steps_.prepare(limits);
  }

  void bind_caller() override { pool_.bind_caller(); }

  void embed_tokens(const EmbedTokens& op) override { steps_.embed_tokens(op); }
  void rms_norm(const RmsNorm& op) override { steps_.rms_norm(op); }
  void rope(const Rope& op) override { steps_.rope(op); }
  void quantize_activation(const QuantizeActivation& op) override { steps_.quantize_activation(op); }
  void matmul(const Matmul& op) override { products_.matmul(op); }
  void grouped_matmul(const GroupedMatmul& op) override {
    products_.grouped_matmul(op);
    if (op.quantize) steps_.quantize_activation({op.y, op.y});
  }

  void hyper_connection_mix(const HyperConnectionMix& op) override { steps_.hyper_connection_mix(op); }
  void hyper_connection_collapse(const HyperConnectionCollapse& op) override { steps_.hyper_connection_collapse(op); }
  void hyper_connection_expand(const HyperConnectionExpand& op) override { steps_.hyper_connection_expand(op); }
  void hyper_connection_mean(const HyperConnectionMean& op) override { steps_.hyper_connection_mean(op); }

  void engram_gather(const EngramGather& op) override { steps_.engram_gather(op); }
  void engram_mix(const EngramMix& op) override { steps_.engram_mix(op); }

  void make_window_records(const MakeWindowRecords& op) override { steps_.make_window_records(op); }
  void commit_window(const CommitWindow& op) override { steps_.commit_window(op); }
  void compress_pairs(const CompressPairs& op) override { steps_.compress_pairs(op); }
  void store_compressed(const StoreCompressed& op) override { steps_.store_compressed(op); }
  void store_index_keys(const StoreIndexKeys& op) override { steps_.store_index_keys(op); }
  void make_index_queries(const MakeIndexQueries& op) override { steps_.make_index_queries(op); }
  void index_topk(const IndexTopk& op) override { steps_.index_topk(op); }
  void sparse_attention(const SparseAttention& op) override {
    const bool rotates = op.table.pairs > 0;
    if (rotates) steps_.rope(op.query_rotation());
    steps_.sparse_attention(op);
    if (!rotates) return;
    steps_.rope(op.output_rotation());
    steps_.quantize_activation({op.o, op.o});
  }

  void route(const Route& op) override { products_.route(op); }
  void mixture_of_experts(const MixtureOfExperts& op) override { products_.mixture_of_experts(op); }

  void add_rows(const AddRows& op) override { steps_.add_rows(op); }
  void sample(const Sample& op) override { steps_.sample(op); }

 private:
  std::string name_;
  ThreadPool pool_;
  cpu::MatrixProducts products_;
  cpu::Steps steps_;
};

}  // namespace

Result<std::unique_ptr<Ops>> make_cpu_ops(const CpuOpsOptions& options) {
  CpuIsa isa;
  if (options.isa) {
    isa = *options.isa;
    DI_RETURN_IF_ERROR(cpu::check_isa(isa));
  } else {
    DI_ASSIGN_OR_RETURN(isa, select_cpu_isa());
  }
  auto ops = std::make_unique<CpuOps>(isa, options.threads);
  if (ops->threads() < options.threads.threads)
    return Status(StatusCode::kResourceExhausted, "threads is " + std::to_string(options.threads.threads) +
                                                      "; this system gives a process " +
                                                      std::to_string(ops->threads()));
  return std::unique_ptr<Ops>(std::move(ops));
}

}  // namespace deepinfer
