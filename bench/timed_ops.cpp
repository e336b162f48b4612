#include "bench/timed_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace deepinfer::bench {
namespace {

std::string product_name(std::string_view op, const LinearWeight& weight) {
  const char* format = weight.format == LinearWeight::Format::kFp8   ? "fp8"
                       : weight.format == LinearWeight::Format::kFp4 ? "fp4"
                                                                     : "bf16";
  return fmt::format("{} {} {}x{}", op, format, weight.n, weight.k);
}

int64_t bytes(const ExpertWeights& expert) {
  return expert.w1.bytes() + expert.w3.bytes() + expert.w2.bytes();
}

// The weights that a call reads: each chosen expert once, and the shared one.
int64_t expert_bytes(const MixtureOfExperts& op) {
  std::vector<bool> chosen(static_cast<size_t>(op.expert_count));
  int64_t sum = op.shared.w1.empty() ? 0 : bytes(op.shared);
  for (int64_t i = 0; i < op.expert.rows; ++i) {
    for (int64_t k = 0; k < op.expert.columns; ++k) {
      const auto id = static_cast<size_t>(op.expert.row(i)[k]);
      if (!chosen[id]) sum += bytes(op.experts[id]);
      chosen[id] = true;
    }
  }
  return sum;
}

int64_t multiply_adds(const LinearWeight& weight) {
  return weight.n * weight.k;
}

int64_t multiply_adds(const ExpertWeights& expert) {
  return multiply_adds(expert.w1) + multiply_adds(expert.w3) + multiply_adds(expert.w2);
}

// Rows that compete for a query that sees `visible` of them.
int64_t competing_rows(const IndexTopk& op, int64_t row, int64_t visible) {
  if (op.pool != IndexTopk::Pool::kUse) return visible;
  int64_t rows = 0;
  for (int64_t i = 0; i < op.candidates.columns; ++i) {
    const int64_t block = op.candidates.row(row)[i];
    if (block >= 0) rows += std::min<int64_t>(op.candidate_block, visible - block * op.candidate_block);
  }
  return rows;
}

// Window records and chosen rows that a query looks at.
int64_t attended_rows(const SparseAttention& op, const AttentionSequence& sequence, int64_t i) {
  int64_t rows = 0;
  if (op.window == SparseAttention::Window::kCausal) {
    rows = std::min<int64_t>(sequence.position + i + 1 - sequence.first_visible, op.window_size);
  } else {
    const int64_t first = std::max<int64_t>(sequence.first_visible, sequence.step_position - op.window_size);
    rows = sequence.step_position - first + sequence.step_records;
  }
  for (int64_t k = 0; k < op.selected.columns; ++k) rows += op.selected.row(sequence.first_row + i)[k] >= 0 ? 1 : 0;
  return rows;
}

}  // namespace

template <typename Call>
OpTime& TimedOps::time(std::string_view name, int64_t weight_bytes, Call&& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  ops_.memory().finish();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  auto found = times_.find(name);
  if (found == times_.end()) found = times_.emplace(name, OpTime{.name = std::string(name)}).first;
  ++found->second.calls;
  found->second.seconds += spent.count();
  found->second.weight_bytes += weight_bytes;
  return found->second;
}

std::vector<OpTime> TimedOps::times() const {
  std::vector<OpTime> all;
  for (const auto& [name, entry] : times_) all.push_back(entry);
  std::sort(all.begin(), all.end(), [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
  return all;
}

void TimedOps::matmul(const Matmul& op) {
  OpTime& entry = time(product_name("matmul", op.weight), op.weight.bytes(), [&] { ops_.matmul(op); });
  entry.multiply_adds += op.x.rows * multiply_adds(op.weight);
}

void TimedOps::grouped_matmul(const GroupedMatmul& op) {
  OpTime& entry = time(product_name("grouped_matmul", op.weight), op.weight.bytes(), [&] { ops_.grouped_matmul(op); });
  entry.multiply_adds += op.x.rows * multiply_adds(op.weight);
}

void TimedOps::route(const Route& op) {
  OpTime& entry = time("route", op.gate.bytes(), [&] { ops_.route(op); });
  entry.multiply_adds += op.x.rows * multiply_adds(op.gate);
}

void TimedOps::mixture_of_experts(const MixtureOfExperts& op) {
  const int64_t bytes = ops_.memory().is_host() ? expert_bytes(op) : 0;
  OpTime& entry = time("mixture_of_experts", bytes, [&] { ops_.mixture_of_experts(op); });
  const int64_t shared = op.shared.w1.empty() ? 0 : multiply_adds(op.shared);
  entry.multiply_adds += op.x.rows * (shared + op.expert.columns * multiply_adds(op.experts[0]));
}

void TimedOps::embed_tokens(const EmbedTokens& op) {
  time("embed_tokens", 0, [&] { ops_.embed_tokens(op); });
}

void TimedOps::gather_rows(const GatherRows& op) {
  time("gather_rows", 0, [&] { ops_.gather_rows(op); });
}

void TimedOps::rms_norm(const RmsNorm& op) {
  time("rms_norm", 0, [&] { ops_.rms_norm(op); });
}

void TimedOps::rope(const Rope& op) {
  time("rope", 0, [&] { ops_.rope(op); });
}

void TimedOps::quantize_activation(const QuantizeActivation& op) {
  time("quantize_activation", 0, [&] { ops_.quantize_activation(op); });
}

void TimedOps::hyper_connection_mix(const HyperConnectionMix& op) {
  OpTime& entry = time("hyper_connection_mix", 0, [&] { ops_.hyper_connection_mix(op); });
  entry.multiply_adds += op.streams.rows * op.streams.columns * (op.pre.columns + op.post.columns + op.comb.columns);
}

void TimedOps::hyper_connection_collapse(const HyperConnectionCollapse& op) {
  time("hyper_connection_collapse", 0, [&] { ops_.hyper_connection_collapse(op); });
}

void TimedOps::hyper_connection_expand(const HyperConnectionExpand& op) {
  time("hyper_connection_expand", 0, [&] { ops_.hyper_connection_expand(op); });
}

void TimedOps::hyper_connection_mean(const HyperConnectionMean& op) {
  time("hyper_connection_mean", 0, [&] { ops_.hyper_connection_mean(op); });
}

void TimedOps::engram_gather(const EngramGather& op) {
  time("engram_gather", 0, [&] { ops_.engram_gather(op); });
}

void TimedOps::engram_mix(const EngramMix& op) {
  time("engram_mix", 0, [&] { ops_.engram_mix(op); });
}

void TimedOps::make_window_records(const MakeWindowRecords& op) {
  time("make_window_records", 0, [&] { ops_.make_window_records(op); });
}

void TimedOps::commit_window(const CommitWindow& op) {
  time("commit_window", 0, [&] { ops_.commit_window(op); });
}

void TimedOps::compress_pairs(const CompressPairs& op) {
  time("compress_pairs", 0, [&] { ops_.compress_pairs(op); });
}

void TimedOps::store_compressed(const StoreCompressed& op) {
  time("store_compressed", 0, [&] { ops_.store_compressed(op); });
}

void TimedOps::store_index_keys(const StoreIndexKeys& op) {
  time("store_index_keys", 0, [&] { ops_.store_index_keys(op); });
}

void TimedOps::make_index_queries(const MakeIndexQueries& op) {
  time("make_index_queries", 0, [&] { ops_.make_index_queries(op); });
}

void TimedOps::index_topk(const IndexTopk& op) {
  OpTime& entry = time("index_topk", 0, [&] { ops_.index_topk(op); });
  if (!ops_.memory().is_host()) return;
  for (int s = 0; s < op.sequence_count; ++s) {
    const IndexSequence& sequence = op.sequences[s];
    for (int64_t i = 0; i < sequence.rows; ++i)
      entry.multiply_adds += int64_t{op.heads} * op.head_dim *
                             competing_rows(op, sequence.first_row + i, (sequence.position + i + 1) / op.ratio);
  }
}

void TimedOps::sparse_attention(const SparseAttention& op) {
  OpTime& entry = time("sparse_attention", 0, [&] { ops_.sparse_attention(op); });
  if (!ops_.memory().is_host()) return;
  for (int s = 0; s < op.sequence_count; ++s) {
    const AttentionSequence& sequence = op.sequences[s];
    for (int64_t i = 0; i < sequence.rows; ++i)
      entry.multiply_adds += 2 * int64_t{op.heads} * op.head_dim * attended_rows(op, sequence, i);
  }
}

void TimedOps::add_rows(const AddRows& op) {
  time("add_rows", 0, [&] { ops_.add_rows(op); });
}

void TimedOps::sample(const Sample& op) {
  time("sample", 0, [&] { ops_.sample(op); });
}

}  // namespace deepinfer::bench
