// MatrixProducts: the steps that read weights by the gigabyte - linear layers, routing, experts - split over threads.
// Owned by CpuOps; one call at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/products/product_kernels.h"
#include "base/thread_pool.h"
#include "ops/ops.h"
#include "tensor/buffer.h"

namespace deepinfer::cpu {

const ProductKernels& product_kernels(CpuIsa isa);

class MatrixProducts {
 public:
  MatrixProducts(const ProductKernels& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {}

  // Allocates all scratch memory for steps within the limits.  A step beyond them is a programmer error.
  Status prepare(const OpsLimits& limits);

  void matmul(const Matmul& op);
  void grouped_matmul(const GroupedMatmul& op);
  void route(const Route& op);
  void mixture_of_experts(const MixtureOfExperts& op);

 private:
  // One thread's own memory.
  struct Scratch {
    std::byte* kernel;  // for ProductKernels::multiply
    uint16_t* out;      // bf16 [kMaxBlockRows, kMaxBlockOutputs]
    uint16_t* out2;     // the same again: an expert's up projection beside its gate
    float* sum;         // [rows of a step, kMaxBlockOutputs]: expert outputs being added
  };
  // The activation rows that meet one expert: consecutive in packed_ and hidden_.
  struct ExpertRows {
    const ExpertWeights* weights;
    int64_t first;
    int64_t count;
    int64_t packed_first;  // where its packed input begins: first, or that of an expert with the same input
  };
  // Rows [first, first + count) of one entry of experts_.
  struct RowBlock {
    const ExpertRows* expert;
    int64_t first;  // from the expert's first row
    int64_t count;
  };

  Scratch scratch(int thread);
  static WeightBlock weight_block(const LinearWeight& weight, int64_t first, int64_t outputs);
  int64_t packed_columns(const LinearWeight& weight) const;
  // How a product of rows x outputs is cut; outputs is a multiple of 32.
  struct Blocks {
    int64_t rows, outputs;
    double cost;  // of the slowest thread, in arbitrary units
  };
  // Blocks of block_rows rows; tasks: how many such products there are side by side.
  Blocks blocks_of(int64_t block_rows, int64_t outputs, int64_t tasks) const;
  Blocks choose_blocks(int64_t rows, int64_t outputs, int64_t tasks) const;
  // Outputs of a task where so few rows meet the weights that reading or decoding these is most of the work.
  // output_bytes: of an output's weights; products: how many products of this many outputs there are side by side.
  // The result is at least `least`: 8, or 32 where tasks round groups of 32 outputs together.
  int64_t few_row_outputs(int64_t rows, int64_t outputs, int64_t output_bytes, int64_t products, int64_t least) const;
  void pack_tile(const LinearWeight& weight, const bf16* const* rows, int count, uint16_t* tile) const;
  // Group g of the columns of x meets rows [g n/groups, (g+1) n/groups) of the weight.  finish, if there is one, is
  // called on pieces of y32.
  void multiply(MatrixView<const bf16> x, const LinearWeight& weight, int64_t groups, MatrixView<bf16> y,
                MatrixView<float> y32, void (*finish)(float* y, int64_t count) = nullptr);

  void group_by_expert(const MixtureOfExperts& op);
  void split_rows(int64_t block_rows);
  uint16_t* packed_rows(const RowBlock& block, const LinearWeight& weight, int64_t first);
  void pack_inputs(const MixtureOfExperts& op);
  void expert_hidden_rows(const MixtureOfExperts& op);
  void pack_hidden_rows();
  void add_expert_outputs(const MixtureOfExperts& op);

  const ProductKernels& kernels_;
  ThreadPool& pool_;
  OpsLimits limits_;
  Buffer packed_;                      // packed activations: bf16
  Buffer hidden_;                      // hidden rows of experts: bf16 [expert rows, f]
  Buffer scores_;                      // router logits: fp32 [rows, experts]
  std::vector<Buffer> thread_memory_;  // Scratch of each thread
  size_t kernel_bytes_ = 0;

  // Of one mixture_of_experts call; sized by prepare().
  std::vector<int64_t> row_of_;      // row of x of each expert row: by expert, then by row; the shared expert's last
  std::vector<float> weight_of_;     // its routing weight
  std::vector<int64_t> next_;        // [experts + 1]: counting sort
  std::vector<ExpertRows> experts_;  // the experts with rows, ascending, the shared one last
  std::vector<RowBlock> row_blocks_;
};

}  // namespace deepinfer::cpu
