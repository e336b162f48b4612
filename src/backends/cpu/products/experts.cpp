// Mixture of experts: rows are sorted by expert; gate and up projections with the activation between them are one pass
// over the weights, the down projection a second.  A task of the second adds the outputs of all experts for its columns
// in ascending expert id, the shared expert last, so that no expert output is stored.
#include <algorithm>

#include "backends/cpu/products/products.h"
#include "backends/cpu/steps/row_tasks.h"
#include "base/check.h"

namespace deepinfer::cpu {
namespace {

int64_t output_bytes(const LinearWeight& weight) {
  return weight.bytes() / weight.n;
}

}  // namespace

void MatrixProducts::mixture_of_experts(const MixtureOfExperts& op) {
  const int64_t rows = op.x.rows, expert_rows = rows * (op.expert.columns + 1);
  DI_CHECK(op.y.rows == rows && op.y.columns == op.x.columns, "y has the shape of x");
  DI_CHECK(op.expert.rows == rows && op.weight.rows == rows && op.weight.columns == op.expert.columns,
           "expert and weight are [rows of x, top_k]");
  DI_CHECK(expert_rows <= static_cast<int64_t>(row_of_.size()) && op.expert_count <= limits_.experts &&
               op.x.columns <= limits_.hidden,
           "a mixture of experts is beyond the limits of prepare()");
  if (rows == 0) return;
  group_by_expert(op);
  pack_inputs(op);
  expert_hidden_rows(op);
  pack_hidden_rows();
  add_expert_outputs(op);
}

void MatrixProducts::group_by_expert(const MixtureOfExperts& op) {
  const int64_t rows = op.x.rows, top_k = op.expert.columns;
  std::fill(next_.begin(), next_.end(), 0);
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t k = 0; k < top_k; ++k) {
      const int32_t e = op.expert.row(m)[k];
      DI_CHECK(e >= 0 && e < op.expert_count, "every chosen expert exists");
      ++next_[static_cast<size_t>(e) + 1];
    }
  }
  experts_.clear();
  for (int32_t e = 0; e < op.expert_count; ++e) {
    const int64_t first = next_[e], count = next_[e + 1];
    if (count > 0) experts_.push_back({&op.experts[e], first, count, first});
    next_[e + 1] += first;
  }
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t k = 0; k < top_k; ++k) {
      const int64_t place = next_[op.expert.row(m)[k]]++;
      row_of_[place] = m;
      weight_of_[place] = op.weight.row(m)[k];
    }
  }
  if (!op.shared.w1.empty()) {
    const int64_t first = rows * top_k;
    experts_.push_back({&op.shared, first, rows, first});
    for (int64_t m = 0; m < rows; ++m) {
      row_of_[first + m] = m;
      weight_of_[first + m] = 1;
    }
  }
  for (const ExpertRows& expert : experts_) {
    const ExpertWeights& w = *expert.weights;
    DI_CHECK(w.w1.k == op.x.columns && w.w3.k == w.w1.k && w.w3.n == w.w1.n && w.w2.k == w.w1.n && w.w2.n == w.w1.k &&
                 w.w1.format == w.w3.format && w.w1.n == experts_[0].weights->w1.n && w.w1.n <= limits_.expert_width,
             "w1 and w3 are [f, d] of one format, w2 is [d, f], f is the same for all experts and within the limits");
  }
}

void MatrixProducts::split_rows(int64_t block_rows) {
  row_blocks_.clear();
  for (const ExpertRows& expert : experts_) {
    for (int64_t first = 0; first < expert.count; first += block_rows) {
      row_blocks_.push_back({&expert, first, std::min(block_rows, expert.count - first)});
    }
  }
}

// Of a block whose expert's packed rows begin at `first`.
uint16_t* MatrixProducts::packed_rows(const RowBlock& block, const LinearWeight& weight, int64_t first) {
  // An expert's rows start where no format's padding lets them overlap their neighbours'.
  const int64_t widest = std::max({kernels_.packed_columns(WeightFormat::kFp8, weight.k),
                                   kernels_.packed_columns(WeightFormat::kFp4, weight.k),
                                   kernels_.packed_columns(WeightFormat::kBf16, weight.k)});
  return packed_.as<uint16_t>() + first * widest + block.first * packed_columns(weight);
}

void MatrixProducts::pack_inputs(const MixtureOfExperts& op) {
  // A single row is the input of all experts: packed once a format.
  for (size_t e = 1; op.x.rows == 1 && e < experts_.size(); ++e) {
    const ExpertRows& before = experts_[e - 1];
    if (before.weights->w1.format == experts_[e].weights->w1.format) experts_[e].packed_first = before.packed_first;
  }
  split_rows(kTileRows);
  const int64_t row_work = std::min<int64_t>(op.x.rows, kTileRows) * op.x.columns;
  for_each_row(pool_, static_cast<int64_t>(row_blocks_.size()), row_work, [&](int64_t task, int) {
    const RowBlock& block = row_blocks_[static_cast<size_t>(task)];
    if (block.expert->packed_first != block.expert->first) return;
    const bf16* rows[kTileRows];
    for (int64_t i = 0; i < block.count; ++i) rows[i] = op.x.row(row_of_[block.expert->first + block.first + i]);
    const LinearWeight& weight = block.expert->weights->w1;
    pack_tile(weight, rows, static_cast<int>(block.count), packed_rows(block, weight, block.expert->packed_first));
  });
}

void MatrixProducts::expert_hidden_rows(const MixtureOfExperts& op) {
  split_rows(kMaxBlockRows);
  const int64_t f = experts_.empty() ? 0 : experts_[0].weights->w1.n;
  const int64_t row_blocks = static_cast<int64_t>(row_blocks_.size());
  const int64_t average_rows =
      std::max<int64_t>(1, op.x.rows * (op.expert.columns + 1) / std::max<int64_t>(1, row_blocks));
  const int64_t outputs =
      op.x.rows <= kTileRows && f > 0
          ? few_row_outputs(average_rows, f, 2 * output_bytes(experts_[0].weights->w1), row_blocks, 32)
          : blocks_of(average_rows, f, row_blocks).outputs;
  const int64_t output_blocks = (f + outputs - 1) / outputs;
  auto* hidden = hidden_.as<uint16_t>();
  pool_.parallel_for(row_blocks * output_blocks, [&](int64_t task, int thread) {
    const RowBlock& block = row_blocks_[static_cast<size_t>(task / output_blocks)];
    const ExpertWeights& weights = *block.expert->weights;
    const int64_t first = task % output_blocks * outputs, count = std::min(outputs, f - first);
    const Scratch own = scratch(thread);
    const uint16_t* packed = packed_rows(block, weights.w1, block.expert->packed_first);
    kernels_.multiply(weight_block(weights.w1, first, count), packed, block.count,
                      {.fp32 = nullptr, .bf16 = own.out, .stride = count}, own.kernel);
    kernels_.multiply(weight_block(weights.w3, first, count), packed, block.count,
                      {.fp32 = nullptr, .bf16 = own.out2, .stride = count}, own.kernel);
    for (int64_t i = 0; i < block.count; ++i) {
      const int64_t row = block.expert->first + block.first + i;
      kernels_.expert_hidden(own.out + i * count, own.out2 + i * count, count, op.limit, weight_of_[row],
                             hidden + row * f + first);
    }
  });
}

void MatrixProducts::pack_hidden_rows() {
  split_rows(kTileRows);
  const auto* hidden = hidden_.as<bf16>();
  int64_t row_work = 0;
  for (const RowBlock& block : row_blocks_) row_work = std::max(row_work, block.count * block.expert->weights->w2.k);
  for_each_row(pool_, static_cast<int64_t>(row_blocks_.size()), row_work, [&](int64_t task, int) {
    const RowBlock& block = row_blocks_[static_cast<size_t>(task)];
    const LinearWeight& weight = block.expert->weights->w2;
    const bf16* rows[kTileRows];
    for (int64_t i = 0; i < block.count; ++i) rows[i] = hidden + (block.expert->first + block.first + i) * weight.k;
    pack_tile(weight, rows, static_cast<int>(block.count), packed_rows(block, weight, block.expert->first));
  });
}

void MatrixProducts::add_expert_outputs(const MixtureOfExperts& op) {
  split_rows(kMaxBlockRows);
  const int64_t d = op.y.columns;
  int64_t bytes = 1;  // of one output's weights in all experts
  for (const RowBlock& block : row_blocks_) bytes += output_bytes(block.expert->weights->w2);
  const int64_t outputs =
      op.y.rows <= kTileRows ? few_row_outputs(1, d, bytes, 1, 8) : blocks_of(op.y.rows, d, 1).outputs;
  pool_.parallel_for((d + outputs - 1) / outputs, [&](int64_t task, int thread) {
    const int64_t first = task * outputs, count = std::min(outputs, d - first);
    const Scratch own = scratch(thread);
    std::fill_n(own.sum, op.y.rows * count, 0.0f);
    for (const RowBlock& block : row_blocks_) {
      const LinearWeight& w2 = block.expert->weights->w2;
      kernels_.multiply(weight_block(w2, first, count), packed_rows(block, w2, block.expert->first), block.count,
                        {.fp32 = nullptr, .bf16 = own.out, .stride = count}, own.kernel);
      for (int64_t i = 0; i < block.count; ++i) {
        const int64_t row = row_of_[block.expert->first + block.first + i];
        kernels_.add_row(own.out + i * count, count, own.sum + row * count);
      }
    }
    for (int64_t m = 0; m < op.y.rows; ++m) {
      kernels_.round_row(own.sum + m * count, count, reinterpret_cast<uint16_t*>(op.y.row(m) + first));
    }
  });
}

}  // namespace deepinfer::cpu
