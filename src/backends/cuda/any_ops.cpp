#include "backends/cuda/any_ops.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "backends/cuda/any_ops_scratch.h"
#include "backends/cuda/kernels/engram/engram.h"
#include "backends/cuda/kernels/experts/experts.h"
#include "backends/cuda/kernels/records/records.h"
#include "backends/cuda/kernels/rows/rows.h"
#include "backends/cuda/kernels/streams/streams.h"
#include "backends/cuda/launch/cuda_status.h"
#include "base/check.h"
#include "tensor/formats.h"

namespace deepinfer::cuda {
namespace {

// 16-byte loads of weights and of rows of x.
void check_alignment(const LinearWeight& weight, MatrixView<const bf16> x) {
  DI_CHECK(weight.k % 32 == 0 && reinterpret_cast<uintptr_t>(weight.data) % 16 == 0,
           "a weight lies on a 16-byte boundary, its k is a multiple of 32");
  DI_CHECK(x.rows == 0 || (reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && x.stride % 8 == 0),
           "rows that enter a product lie on 16-byte boundaries");
}

}  // namespace

AnyOps::~AnyOps() {
  if (stream_.queue() == nullptr) return;
  cudaStreamSynchronize(stream_.queue());  // before the scratch memory goes
  cudaStreamDestroy(stream_.queue());
}

Status AnyOps::open(bool use_graphs, double memory_share) {
  cudaStream_t queue = nullptr;
  DI_RETURN_IF_ERROR(cuda_status(cudaStreamCreateWithFlags(&queue, cudaStreamNonBlocking), "stream"));
  launches_.open(queue, use_graphs);
  stream_ = Stream(queue, &launches_);
  pinned_.open(stream_);
  return memory_.open(stream_, memory_share);
}

Status AnyOps::prepare(const OpsLimits& limits) {
  const AnyScratch scratch = scratch_of(limits);
  DI_RETURN_IF_ERROR(ring_.prepare(scratch.parcel, launches_));
  DI_ASSIGN_OR_RETURN(mix_, DeviceBuffer::allocate(scratch.mix));
  DI_RETURN_IF_ERROR(cuda_status(cudaMemsetAsync(mix_.data(), 0, kMixCounters * 4, stream_), "counters"));
  DI_ASSIGN_OR_RETURN(scores_, DeviceBuffer::allocate(scratch.scores));
  DI_ASSIGN_OR_RETURN(choices_, DeviceBuffer::allocate(scratch.choices));
  DI_ASSIGN_OR_RETURN(hidden_, DeviceBuffer::allocate(scratch.hidden));
  DI_ASSIGN_OR_RETURN(outputs_, DeviceBuffer::allocate(scratch.outputs));
  DI_ASSIGN_OR_RETURN(attention_, DeviceBuffer::allocate(scratch.attention));
  DI_ASSIGN_OR_RETURN(selection_, DeviceBuffer::allocate(scratch.selection));
  DI_ASSIGN_OR_RETURN(raw_logits_, DeviceBuffer::allocate(scratch.raw_logits));
  DI_ASSIGN_OR_RETURN(sampled_, DeviceBuffer::allocate(scratch.sampled));
  top_.resize(static_cast<size_t>(scratch.sampled) / sizeof(TokenLogprob));
  return {};
}

Status AnyOps::health() {
  note(launches_.flush());
  note(memory_.status());
  return status_;
}

void AnyOps::embed_tokens(const EmbedTokens& op) {
  DI_CHECK(op.streams.columns == op.copies * op.table.columns, "streams is [rows, copies * d]");
  join();
  if (well()) note(any_embed_tokens(op, stream_));
}

void AnyOps::gather_rows(const GatherRows& op) {
  DI_CHECK(op.x.columns == op.y.columns, "a row keeps its width");
  if (!well() || op.y.rows == 0) return;
  const int64_t bytes = UploadRing::room<int32_t>(op.y.rows);
  note(ring_.begin(bytes));
  GatherRows there = op;
  there.index = ring_.put(op.index, op.y.rows);
  note(ring_.send());
  join();
  if (well()) note(any_gather_rows(there, stream_));
}

void AnyOps::rms_norm(const RmsNorm& op) {
  if (well()) note(any_rms_norm(op, stream_));
}
void AnyOps::rope(const Rope& op) {
  if (well()) note(any_rope(op, stream_));
}
void AnyOps::quantize_activation(const QuantizeActivation& op) {
  if (well()) note(any_quantize_activation(op, stream_));
}
void AnyOps::add_rows(const AddRows& op) {
  if (well()) note(any_add_rows(op, stream_));
}

Status AnyOps::product(const Product& product) {
  return any_product(product, stream_);
}

void AnyOps::matmul(const Matmul& op) {
  if (!well() || op.x.rows == 0) return;
  DI_CHECK((op.y.data == nullptr) != (op.y32.data == nullptr), "exactly one of y and y32 has data");
  DI_CHECK(op.x.columns == op.weight.k, "the width of x is the weight's k");
  check_alignment(op.weight, op.x);
  note(product({op.x, op.weight, 1, op.y, op.y32}));
}

void AnyOps::grouped_matmul(const GroupedMatmul& op) {
  if (!well() || op.x.rows == 0) return;
  DI_CHECK(op.weight.n % (op.groups * 32) == 0 && op.x.columns == op.groups * op.weight.k,
           "n is a multiple of groups * 32, x is [rows, groups * k]");
  check_alignment(op.weight, op.x);
  note(product({op.x, op.weight, op.groups, op.y, {}}));
  if (op.quantize) quantize_activation({op.y, op.y});
}

void AnyOps::hyper_connection_mix(const HyperConnectionMix& op) {
  if (!well()) return;
  DI_CHECK((kMixCounters + mix_part_floats(op.streams.rows, op.streams.columns)) * 4 <= mix_.bytes(),
           "rows and width of limits");
  // Nothing but the streams' next operation needs the coefficients: they are made beside the sublayer.
  launches_.begin_beside(SideLine::kCoefficients);
  note(any_hyper_connection_mix(op, {mix_.as<float>() + kMixCounters, mix_.as<int32_t>()}, stream_));
  launches_.end_beside();
}
void AnyOps::hyper_connection_collapse(const HyperConnectionCollapse& op) {
  join();
  if (well()) note(any_hyper_connection_collapse(op, stream_));
}
void AnyOps::hyper_connection_expand(const HyperConnectionExpand& op) {
  join();
  if (well()) note(any_hyper_connection_expand(op, stream_));
}
void AnyOps::hyper_connection_mean(const HyperConnectionMean& op) {
  join();
  if (well()) note(any_hyper_connection_mean(op, stream_));
}

void AnyOps::engram_mix(const EngramMix& op) {
  join();
  if (well()) note(any_engram_mix(op, stream_));
}

Status AnyOps::send_engram(const EngramGather& op, int64_t first, int64_t count) {
  const int64_t width = op.table.width, scales = width / kFp8Group;
  DI_RETURN_IF_ERROR(ring_.begin(UploadRing::room<uint8_t>(count * op.lookups * (width + scales))));
  uint8_t* to = nullptr;
  const uint8_t* gathered = ring_.place(count * op.lookups * (width + scales), &to);
  for (int64_t i = first * op.lookups; i < (first + count) * op.lookups; ++i, to += width + scales) {
    const int64_t row = op.row[i];
    if (row < 0 || row >= op.table.rows) {
      std::fill_n(to, width + scales, uint8_t{0});
      continue;
    }
    std::copy_n(op.table.weight + row * width, width, to);
    std::copy_n(op.table.scale + row * scales, scales, to + width);
  }
  DI_RETURN_IF_ERROR(ring_.send());
  return any_engram_decode(gathered, op.lookups, width, op.e.rows_from(first, count), stream_);
}

Status AnyOps::gather_engram(const EngramGather& op, int64_t first, int64_t count) {
  DI_RETURN_IF_ERROR(ring_.begin(UploadRing::room<int64_t>(count * op.lookups)));
  const int64_t* row = ring_.put(op.row + first * op.lookups, count * op.lookups);
  DI_RETURN_IF_ERROR(ring_.send());
  return any_engram_gather({op.table, row, op.lookups, op.e.rows_from(first, count)}, stream_);
}

void AnyOps::engram_gather(const EngramGather& op) {
  const int64_t of_lookup = op.table.reachable ? int64_t{sizeof(int64_t)} : op.table.width + op.table.width / kFp8Group;
  const int64_t of_row = op.lookups * of_lookup;
  const int64_t rows = std::max<int64_t>(1, of_row == 0 ? op.e.rows : (ring_.parcel_bytes() - 16) / of_row);
  for (int64_t first = 0; well() && first < op.e.rows; first += rows) {
    const int64_t count = std::min(rows, op.e.rows - first);
    note(op.table.reachable ? gather_engram(op, first, count) : send_engram(op, first, count));
  }
}

void AnyOps::make_window_records(const MakeWindowRecords& op) {
  if (op.attention_follows) {
    launches_.begin_beside(SideLine::kRecords);
  } else {
    launches_.join(SideLine::kRecords);  // where the records before may still be read
  }
  if (well()) note(any_make_window_records(op, stream_));
  launches_.end_beside();
}
void AnyOps::make_index_queries(const MakeIndexQueries& op) {
  if (well()) note(any_make_index_queries(op, stream_));
}

void AnyOps::route(const Route& op) {
  if (!well() || op.x.rows == 0) return;
  DI_CHECK(op.x.rows * op.gate.n * 4 <= scores_.bytes(), "rows and experts of limits");
  check_alignment(op.gate, op.x);
  const MatrixView<float> scores(scores_.as<float>(), op.x.rows, op.gate.n);
  note(product({op.x, op.gate, 1, {}, scores}));
  if (well()) note(any_route(op, scores, stream_));
}

Status AnyOps::run_experts(const MixtureOfExperts& op) {
  const int64_t rows = op.x.rows, d = op.x.columns, top_k = op.expert.columns;
  const bool shared = !op.shared.w1.empty();
  const ExpertWeights* const end = op.experts + op.expert_count;  // some may be empty: nobody chooses those
  const ExpertWeights* const any =
      std::find_if(op.experts, end, [](const ExpertWeights& expert) { return !expert.w1.empty(); });
  const bool routed = top_k > 0 && any != end;
  const int64_t widths[2] = {routed ? any->w1.n : 0, shared ? op.shared.w1.n : 0};
  DI_CHECK(
      rows * (top_k * widths[0] + widths[1]) * 2 <= hidden_.bytes() && rows * (top_k + 1) * d * 2 <= outputs_.bytes(),
      "rows, experts and widths of limits");
  DI_RETURN_IF_ERROR(ring_.begin(UploadRing::room<ExpertWeights>(op.expert_count + 1)));
  ExpertWeights* host = nullptr;
  const ExpertWeights* experts = ring_.place(op.expert_count + 1, &host);
  std::copy_n(op.experts, op.expert_count, host);
  host[op.expert_count] = op.shared;
  DI_RETURN_IF_ERROR(ring_.send());

  ExpertStep step;
  step.x = op.x;
  step.weight = op.weight;
  step.limit = op.limit;
  step.hidden = hidden_.as<bf16>();
  step.y = outputs_.as<bf16>();
  if (routed) {
    auto* words = choices_.as<int32_t>();
    step.choices = {words, words + op.expert_count * rows, words + op.expert_count * (rows + 1),
                    words + op.expert_count * (rows + 2)};
    DI_CHECK((op.expert_count * (rows + 2) + 1) * 4 <= choices_.bytes(), "rows and experts of limits");
    step.width = widths[0];
    step.format_in = any->w1.format;
    step.format_out = any->w2.format;
    DI_CHECK(std::all_of(op.experts, end,
                         [&](const ExpertWeights& expert) {
                           return expert.w1.empty() ||
                                  (expert.w1.format == step.format_in && expert.w3.format == step.format_in &&
                                   expert.w2.format == step.format_out && expert.w1.n == step.width);
                         }),
             "the experts of a layer have one width and the same formats");
    step.experts = experts;
    step.expert_count = op.expert_count;
    check_alignment(any->w1, op.x);
    DI_RETURN_IF_ERROR(any_list_choices(op.expert, op.expert_count, step.choices, stream_));
    DI_RETURN_IF_ERROR(any_expert_hidden(step, stream_));
    DI_RETURN_IF_ERROR(any_expert_output(step, stream_));
  }
  const bf16* routed_outputs = step.y;
  if (shared) {
    step.hidden += rows * top_k * widths[0];
    step.y += rows * top_k * d;
    step.choices = {};
    step.width = widths[1];
    step.format_in = op.shared.w1.format;
    step.format_out = op.shared.w2.format;
    step.experts = experts + op.expert_count;
    step.expert_count = 1;
    check_alignment(op.shared.w1, op.x);
    DI_RETURN_IF_ERROR(any_expert_hidden(step, stream_));
    DI_RETURN_IF_ERROR(any_expert_output(step, stream_));
  }
  return any_combine_experts(op.expert, routed_outputs, shared ? step.y : nullptr, op.y, stream_);
}

void AnyOps::mixture_of_experts(const MixtureOfExperts& op) {
  if (well() && op.x.rows > 0) note(run_experts(op));
}

}  // namespace deepinfer::cuda
