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

constexpr int64_t kSharedColumns = 2048;  // wider rows are worth two hand-offs

}  // namespace

// The AMX path differs in its matrix products and in attention only.
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
  DI_CHECK(!op.quantize || op.y.columns % 32 == 0, "rounded rows have a width that is a multiple of 32");
  for_each_row(pool_, op.x.rows, op.x.columns, [&](int64_t m, int) {
    kernels_.rms_norm(raw(op.x.row(m)), raw(op.weight), op.x.columns, op.eps, raw(op.y.row(m)));
    if (op.quantize) kernels_.quantize_activation(raw(op.y.row(m)), op.y.columns, raw(op.y.row(m)));
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
  DI_CHECK(op.x.columns % 32 == 0 && op.y.columns == op.x.columns, "x and y have the same width, a multiple of 32");
  for_each_part(pool_, op.x.rows, op.x.columns, 2, [&](int64_t m, int64_t first, int64_t count) {
    kernels_.quantize_activation(raw(op.x.row(m)) + first, count, raw(op.y.row(m)) + first);
  });
}

void Steps::hyper_connection_collapse(const HyperConnectionCollapse& op) {
  const int64_t d = op.x.columns;
  DI_CHECK(op.streams.columns == kHyperCopies * d && op.pre.columns == kHyperCopies,
           "streams is [rows, 4 d], pre [rows, 4]");
  const auto collapse = [&](int64_t m, int64_t first, int64_t count) {
    kernels_.collapse(raw(op.streams.row(m)) + first, op.pre.row(m), d, count, raw(op.x.row(m)) + first);
  };
  DI_CHECK(op.quantized.data == nullptr || (d % 32 == 0 && op.quantized.columns == d),
           "x and its rounded copy have the same width, a multiple of 32");
  const auto norm = [&](int64_t m) {
    uint16_t* x = raw(op.x.row(m));
    if (op.norm != nullptr) kernels_.rms_norm(x, raw(op.norm), d, op.eps, x);
    if (op.quantized.data != nullptr) kernels_.quantize_activation(x, d, raw(op.quantized.row(m)));
  };
  if (d > kSharedColumns && op.x.rows < pool_.threads()) {
    for_each_part(pool_, op.x.rows, d, 8, collapse);
    for_each_row(pool_, op.x.rows, 2 * d, [&](int64_t m, int) { norm(m); });
    return;
  }
  for_each_row(pool_, op.x.rows, 5 * d, [&](int64_t m, int) {
    collapse(m, 0, d);
    norm(m);
  });
}

void Steps::hyper_connection_expand(const HyperConnectionExpand& op) {
  const int64_t d = op.y.columns;
  DI_CHECK(op.streams.columns == kHyperCopies * d, "streams is [rows, 4 d]");
  for_each_part(pool_, op.y.rows, d, 8, [&](int64_t m, int64_t first, int64_t count) {
    kernels_.expand(raw(op.y.row(m)) + first, op.post.row(m), op.comb.row(m), d, count, raw(op.streams.row(m)) + first);
  });
  if (op.next.x.data != nullptr) hyper_connection_collapse(op.next);
}

void Steps::hyper_connection_mean(const HyperConnectionMean& op) {
  const int64_t d = op.x.columns;
  DI_CHECK(op.streams.columns == kHyperCopies * d, "streams is [rows, 4 d]");
  for_each_row(pool_, op.x.rows, 5 * d,
               [&](int64_t m, int) { kernels_.mean(raw(op.streams.row(m)), d, raw(op.x.row(m))); });
}

void Steps::add_rows(const AddRows& op) {
  DI_CHECK(op.x.columns == op.y.columns && op.x.rows == op.y.rows, "x and y have one shape");
  for_each_part(pool_, op.x.rows, op.x.columns, 1, [&](int64_t m, int64_t first, int64_t count) {
    kernels_.add_rows(op.x.row(m) + first, count, op.y.row(m) + first);
  });
}

}  // namespace deepinfer::cpu
