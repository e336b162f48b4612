// Ops: the line between the model and a backend.  One method per model step; the contract of each is in its header.
//
// Rules for every operation (docs/architecture.md, "Exactness"):
//  - row i of an output depends on row i of the inputs and on the cached state of its sequence only;
//  - the bits do not depend on the number of rows, on threads, or on what else is in the step;
//  - no allocation after prepare() (the reference is exempt); inputs are valid (a violated precondition is a programmer
//    error); a matrix with 0 rows is a valid input of every operation and does nothing;
//  - arithmetic is fp32: square roots and divisions rounded once, exp and log good to 2 ulp, no flush of subnormals; a
//    backend may choose the order of sums of more than four terms and nothing else (docs/numerics.md).
// Where operands lie: what a MatrixView, a weight, a norm, a ring, a block or a rope table points to lies in memory().
// The routed experts of MixtureOfExperts and a reachable EngramTable may lie in reachable_host_memory() instead.
// In the host's memory lie
//  - lists of structs (sequences, experts, the rows of Sample) and what SamplingRow points to; BlockList::blocks, the
//    list itself; GatherRows::index; an EngramTable that is not reachable, and EngramGather::row.  They may change once the call has
//    returned;
//  - Sample's results.  They are complete when the call returns.
// Where memory() is not the host's, all other operations may still be under way when the call has returned.
//
// reference/ implements all of it in plain C++ and is the oracle of the other backends.
#pragma once

#include <memory>
#include <string_view>

#include "base/status.h"
#include "ops/compressor.h"
#include "ops/embed.h"
#include "ops/engram.h"
#include "ops/gather_rows.h"
#include "ops/hyper_connection.h"
#include "ops/index_topk.h"
#include "ops/linear.h"
#include "ops/moe.h"
#include "ops/norm.h"
#include "ops/rope.h"
#include "ops/sample.h"
#include "ops/sparse_attention.h"
#include "ops/window_kv.h"
#include "tensor/memory.h"

namespace deepinfer {

// The largest step an engine will run; a backend sizes its scratch memory from it once.
struct OpsLimits {
  int64_t rows = 1;   // rows of a step
  int64_t max_k = 0;  // widest input of a matrix product
  int64_t max_n = 0;  // widest output of a matrix product
  int heads = 0;
  int head_dim = 0;
  int window_size = 128;
  int top_k = 0;  // index_topk
  int index_heads = 0;
  int candidate_blocks = 0;
  int64_t max_position = 0;  // context length
  int experts = 0;           // most routed experts of a layer
  int experts_per_token = 0;
  int64_t expert_width = 0;  // moe_intermediate_size
  int64_t hidden = 0;
  int64_t vocabulary = 0;
};

class Ops {
 public:
  virtual ~Ops() = default;

  virtual std::string_view name() const = 0;  // "reference", "cpu/avx2", ...
  virtual Memory& memory() { return host_memory(); }
  // Memory of the host that operations read too, more slowly than memory(): for weights that have no room there.
  virtual Memory& reachable_host_memory() { return host_memory(); }
  // The first error of a device, as far as one was noticed: the operations after it did nothing.  An engine that asks
  // after sample() has returned, or after memory().finish(), learns of all that came before.
  virtual Status health() { return {}; }
  // Before anything else.  kResourceExhausted when the system has no room for the scratch memory.
  virtual Status prepare(const OpsLimits& limits) = 0;
  // By a thread that makes the calls from now on and does nothing else: a backend whose own threads are bound to cores
  // binds this one beside them.
  virtual void bind_caller() {}

  virtual void embed_tokens(const EmbedTokens&) = 0;
  // Host memory only; a backend with its own memory overrides it.
  virtual void gather_rows(const GatherRows&);
  virtual void rms_norm(const RmsNorm&) = 0;
  virtual void rope(const Rope&) = 0;
  virtual void quantize_activation(const QuantizeActivation&) = 0;
  virtual void matmul(const Matmul&) = 0;
  virtual void grouped_matmul(const GroupedMatmul&) = 0;

  virtual void hyper_connection_mix(const HyperConnectionMix&) = 0;
  virtual void hyper_connection_collapse(const HyperConnectionCollapse&) = 0;
  virtual void hyper_connection_expand(const HyperConnectionExpand&) = 0;
  virtual void hyper_connection_mean(const HyperConnectionMean&) = 0;

  virtual void engram_gather(const EngramGather&) = 0;
  virtual void engram_mix(const EngramMix&) = 0;

  virtual void make_window_records(const MakeWindowRecords&) = 0;
  virtual void commit_window(const CommitWindow&) = 0;
  virtual void compress_pairs(const CompressPairs&) = 0;
  virtual void store_compressed(const StoreCompressed&) = 0;
  virtual void store_index_keys(const StoreIndexKeys&) = 0;
  virtual void make_index_queries(const MakeIndexQueries&) = 0;
  virtual void index_topk(const IndexTopk&) = 0;
  virtual void sparse_attention(const SparseAttention&) = 0;

  virtual void route(const Route&) = 0;
  virtual void mixture_of_experts(const MixtureOfExperts&) = 0;

  virtual void add_rows(const AddRows&) = 0;
  virtual void sample(const Sample&) = 0;
};

// Plain C++, one thread, the oracle.
std::unique_ptr<Ops> make_reference_ops();

}  // namespace deepinfer
