// Operations whose rows are independent and small: embedding, norm, rotation, activation rounding, hyper-connections.
#include <algorithm>
#include <cstring>

#include "backends/cpu/steps/row_tasks.h"
#include "backends/cpu/steps/steps.h"
#include "base/check.h"

namespace deepinfer::cpu {
namespace {

const uint16_t* raw(const bf16* x) {
  return reinterpret_cast<const uint16_t*>(x);
}
uint16_t* raw(bf16* x) {
  return reinterpret_cast<uint16_t*>(x);
}

}  // namespace

// The AMX path differs in its matrix products and in attention over many heads only.
const StepKernels& step_kernels(CpuIsa isa) {
  return isa == CpuIsa::kAvx2 ? step_kernels_avx2() : step_kernels_avx512();
}

const AttentionKernels* wide_attention_kernels(CpuIsa isa) {
  return isa == CpuIsa::kAmx ? &attention_kernels_amx() : nullptr;
}

Status Steps::prepare(const OpsLimits& limits) {
  limits_ = limits;
  rotations_.prepare(limits.rows);
  DI_RETURN_IF_ERROR(prepare_mix(limits));
  DI_RETURN_IF_ERROR(prepare_attention(limits));
  DI_RETURN_IF_ERROR(prepare_index(limits));
  return prepare_sample(limits);
}

void Steps::embed_tokens(const EmbedTokens& op) {
  const int64_t d = op.table.columns;
  DI_CHECK(op.streams.columns == op.copies * d, "streams is [rows, copies * d]");
  for_each_row(pool_, op.streams.rows, op.copies * d, [&](int64_t m, int) {
    DI_CHECK(op.ids[m] >= 0 && op.ids[m] < op.table.rows, "token ids lie in the vocabulary");
    for (int64_t j = 0; j < op.copies; ++j) {
      std::memcpy(op.streams.row(m) + j * d, op.table.row(op.ids[m]), static_cast<size_t>(d) * sizeof(bf16));
    }
    if (op.pre.data == nullptr) return;
    for (int64_t j = 0; j < op.copies; ++j) op.pre.row(m)[j] = j == 0 ? 1.0f : 0.0f;
  });
}

void Steps::rms_norm(const RmsNorm& op) {
  for_each_row(pool_, op.x.rows, op.x.columns, [&](int64_t m, int) {
    kernels_.rms_norm(raw(op.x.row(m)), raw(op.weight), op.x.columns, op.eps, raw(op.y.row(m)));
  });
}

void Steps::rope(const Rope& op) {
  DI_CHECK(op.x.columns == int64_t{op.heads} * op.head_dim && 2 * op.table.pairs <= op.head_dim,
           "x is [rows, heads * head_dim] and the rotated channels are part of a head");
  const int slot = rotations_.find_table(op.table);
  for_each_row(pool_, op.x.rows, 2 * int64_t{op.heads} * op.table.pairs, [&](int64_t m, int) {
    RotationCache::Scratch scratch;
    const Rotation r = rotations_.at(slot, m, op.position[m], scratch);
    kernels_.rope(raw(op.x.row(m)), op.heads, op.head_dim, 2 * op.table.pairs, r.cos,
                  op.inverse ? r.inverse_sin : r.sin);
  });
}

void Steps::quantize_activation(const QuantizeActivation& op) {
  constexpr int64_t kColumns = 8192;  // of a task: one row of attention output is 32,768 wide
  const int64_t k = op.x.columns;
  DI_CHECK(k % 32 == 0 && op.y.columns == k, "x and y have the same width, a multiple of 32");
  const int64_t parts = (k + kColumns - 1) / kColumns;
  for_each_row(pool_, op.x.rows * parts, 2 * std::min(k, kColumns), [&](int64_t task, int) {
    const int64_t m = task / parts, first = task % parts * kColumns;
    kernels_.quantize_activation(raw(op.x.row(m)) + first, std::min(kColumns, k - first), raw(op.y.row(m)) + first);
  });
}

void Steps::hyper_connection_collapse(const HyperConnectionCollapse& op) {
  const int64_t d = op.x.columns;
  DI_CHECK(op.streams.columns == kHyperCopies * d && op.pre.columns == kHyperCopies,
           "streams is [rows, 4 d], pre [rows, 4]");
  for_each_row(pool_, op.x.rows, 5 * d, [&](int64_t m, int) {
    uint16_t* x = raw(op.x.row(m));
    kernels_.collapse(raw(op.streams.row(m)), op.pre.row(m), d, x);
    if (op.norm != nullptr) kernels_.rms_norm(x, raw(op.norm), d, op.eps, x);
  });
}

void Steps::hyper_connection_expand(const HyperConnectionExpand& op) {
  const int64_t d = op.y.columns;
  DI_CHECK(op.streams.columns == kHyperCopies * d, "streams is [rows, 4 d]");
  for_each_row(pool_, op.y.rows, 8 * d, [&](int64_t m, int) {
    kernels_.expand(raw(op.y.row(m)), op.post.row(m), op.comb.row(m), d, raw(op.streams.row(m)));
  });
}

void Steps::hyper_connection_mean(const HyperConnectionMean& op) {
  const int64_t d = op.x.columns;
  DI_CHECK(op.streams.columns == kHyperCopies * d, "streams is [rows, 4 d]");
  for_each_row(pool_, op.x.rows, 5 * d,
               [&](int64_t m, int) { kernels_.mean(raw(op.streams.row(m)), d, raw(op.x.row(m))); });
}

void Steps::add_rows(const AddRows& op) {
  DI_CHECK(op.x.columns == op.y.columns && op.x.rows == op.y.rows, "x and y have one shape");
  constexpr int64_t kColumns = 16384;
  const int64_t parts = (op.x.columns + kColumns - 1) / kColumns;
  for_each_row(pool_, op.x.rows * parts, kColumns, [&](int64_t task, int) {
    const int64_t m = task / parts, first = task % parts * kColumns;
    kernels_.add_rows(op.x.row(m) + first, std::min(kColumns, op.x.columns - first), op.y.row(m) + first);
  });
}

}  // namespace deepinfer::cpu
