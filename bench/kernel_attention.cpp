#include "bench/kernel_attention.h"

#include "tensor/formats.h"

namespace deepinfer::bench {
namespace {

// Values between -1 and 1 that differ from row to row.
std::vector<bf16> values(int64_t count, uint32_t seed) {
  std::vector<bf16> list(static_cast<size_t>(count));
  for (size_t i = 0; i < list.size(); ++i) {
    const uint32_t word = (static_cast<uint32_t>(i) + seed) * 2654435761u;
    list[i] = to_bf16((static_cast<float>(word >> 16) - 32768) / 32768);
  }
  return list;
}

}  // namespace

KernelAttention::KernelAttention()
    : window_(static_cast<size_t>(kWindow * fp8_record_bytes(kHeadDim))),
      compressed_(static_cast<size_t>(kSelected * main_kv_record_bytes(kHeadDim))),
      q_(values(int64_t{kHeads} * kHeadDim, 1)),
      o_(q_.size()),
      selected_(kSelected),
      sink_(kHeads, 0.0f) {
  const std::vector<bf16> rows = values(int64_t{kKeys} * kHeadDim, 2);
  const auto row = [&](int64_t i) { return rows.data() + i * kHeadDim; };
  for (int64_t i = 0; i < kWindow; ++i) {
    encode_fp8_row(row(i), kHeadDim, reinterpret_cast<uint8_t*>(window_.data()) + i * fp8_record_bytes(kHeadDim));
  }
  for (int64_t i = 0; i < kSelected; ++i) {
    encode_main_kv_row(row(kWindow + i), kHeadDim,
                       reinterpret_cast<uint8_t*>(compressed_.data()) + i * main_kv_record_bytes(kHeadDim));
    selected_[static_cast<size_t>(i)] = static_cast<int32_t>(i);
  }
}

void KernelAttention::run(Ops& ops) {
  auto* const window = const_cast<std::byte*>(window_.data());  // read only
  std::byte* const compressed = const_cast<std::byte*>(compressed_.data());
  // The newest record comes with the step: the last one of the ring stands in for it.
  const AttentionSequence sequence{.first_row = 0,
                                   .rows = 1,
                                   .position = kPosition,
                                   .ring = {window, kWindow, fp8_record_bytes(kHeadDim)},
                                   .first_record = 0,
                                   .step_records = 1,
                                   .step_position = kPosition,
                                   .first_visible = 0,
                                   .compressed = {&compressed, kSelected, main_kv_record_bytes(kHeadDim)}};
  ops.sparse_attention({.q = {q_.data(), 1, int64_t{kHeads} * kHeadDim},
                        .heads = kHeads,
                        .head_dim = kHeadDim,
                        .window_size = kWindow,
                        .window = SparseAttention::Window::kCausal,
                        .step_records = {reinterpret_cast<const uint8_t*>(window), 1, fp8_record_bytes(kHeadDim)},
                        .sequences = &sequence,
                        .sequence_count = 1,
                        .selected = {selected_.data(), 1, kSelected},
                        .sink = sink_.data(),
                        .o = {o_.data(), 1, int64_t{kHeads} * kHeadDim}});
}

}  // namespace deepinfer::bench
