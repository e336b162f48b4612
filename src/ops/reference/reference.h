// The reference operations as free functions, one per method of Ops: plain C++, one thread, sums in index order in
// fp32. Backends are compared with them; a backend may also call one for a step that is not worth a kernel.
#pragma once

#include "ops/ops.h"

namespace deepinfer::reference {

void embed_tokens(const EmbedTokens& op);
void rms_norm(const RmsNorm& op);
void rope(const Rope& op);
void quantize_activation(const QuantizeActivation& op);
void matmul(const Matmul& op);
void grouped_matmul(const GroupedMatmul& op);

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

void route(const Route& op);
void mixture_of_experts(const MixtureOfExperts& op);

void add_rows(const AddRows& op);
void sample(const Sample& op);

}  // namespace deepinfer::reference
