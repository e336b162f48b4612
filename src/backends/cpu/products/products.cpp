#include "backends/cpu/products/products.h"

#include <algorithm>
#include <string>
#include <utility>

#include "backends/cpu/steps/row_tasks.h"
#include "base/check.h"

namespace deepinfer::cpu {
namespace {

constexpr int64_t kScaleTile = 32;       // weight rows that share FP8 scales: blocks start at multiples
constexpr int64_t kColumnPadding = 128;  // most columns that a path reads at once
constexpr int64_t kReadBehind = 64;      // bytes that kernels read behind the packed rows

int64_t divide_up(int64_t x, int64_t divisor) {
  return (x + divisor - 1) / divisor;
}
int64_t round_up(int64_t x, int64_t multiple) {
  return divide_up(x, multiple) * multiple;
}

WeightFormat kernel_format(const LinearWeight& weight) {
  switch (weight.format) {
    case LinearWeight::Format::kFp8:
      return WeightFormat::kFp8;
    case LinearWeight::Format::kFp4:
      return WeightFormat::kFp4;
    case LinearWeight::Format::kBf16:
      return WeightFormat::kBf16;
  }
  return WeightFormat::kBf16;
}

Result<Buffer> allocate(int64_t bytes) {
  return Buffer::allocate(static_cast<uint64_t>(bytes));
}

}  // namespace

const ProductKernels& product_kernels(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kAvx2:
      return product_kernels_avx2();
    case CpuIsa::kAvx512:
      return product_kernels_avx512();
    case CpuIsa::kAmx:
      return product_kernels_amx();
  }
  return product_kernels_avx2();
}

Status MatrixProducts::prepare(const OpsLimits& limits) {
  limits_ = limits;
  const int64_t expert_rows = limits.rows * (limits.experts_per_token + 1);
  const int64_t expert_columns = round_up(std::max(limits.hidden, limits.expert_width), kColumnPadding);
  // Twice max_k: each group of a grouped product is padded on its own.
  const int64_t packed =
      std::max(limits.rows * 2 * round_up(limits.max_k, kColumnPadding), expert_rows * expert_columns);
  DI_ASSIGN_OR_RETURN(packed_, allocate(packed * static_cast<int64_t>(sizeof(uint16_t)) + kReadBehind));
  DI_ASSIGN_OR_RETURN(hidden_, allocate(expert_rows * limits.expert_width * static_cast<int64_t>(sizeof(uint16_t))));
  DI_ASSIGN_OR_RETURN(scores_, allocate(limits.rows * limits.experts * static_cast<int64_t>(sizeof(float))));
  row_of_.resize(static_cast<size_t>(expert_rows));
  weight_of_.resize(static_cast<size_t>(expert_rows));
  next_.resize(static_cast<size_t>(limits.experts) + 2);
  experts_.reserve(static_cast<size_t>(limits.experts) + 1);
  row_blocks_.reserve(static_cast<size_t>(expert_rows));

  kernel_bytes_ = kernels_.scratch_bytes(std::max({limits.max_k, limits.hidden, limits.expert_width}));
  kernel_bytes_ = static_cast<size_t>(round_up(static_cast<int64_t>(kernel_bytes_), 4096));
  constexpr int64_t kBlockBytes = kMaxBlockRows * kMaxBlockOutputs * static_cast<int64_t>(sizeof(uint16_t));
  const int64_t bytes = static_cast<int64_t>(kernel_bytes_) + 2 * kBlockBytes +
                        limits.rows * kMaxBlockOutputs * static_cast<int64_t>(sizeof(float));
  thread_memory_.clear();
  thread_memory_.resize(static_cast<size_t>(pool_.threads()));
  // Each thread allocates and clears its own memory, so that it lies on the thread's NUMA node.
  pool_.on_each_thread([&](int thread) {
    if (Result<Buffer> memory = allocate(bytes); memory.ok())
      thread_memory_[static_cast<size_t>(thread)] = std::move(memory).value();
  });
  for (const Buffer& memory : thread_memory_) {
    if (memory.size() == 0) {
      return Status(StatusCode::kResourceExhausted,
                    "no room for " + std::to_string(bytes) + " bytes of scratch memory for each thread");
    }
  }
  return {};
}

MatrixProducts::Scratch MatrixProducts::scratch(int thread) {
  std::byte* memory = thread_memory_[static_cast<size_t>(thread)].data();
  auto* out = reinterpret_cast<uint16_t*>(memory + kernel_bytes_);
  return {.kernel = memory,
          .out = out,
          .out2 = out + kMaxBlockRows * kMaxBlockOutputs,
          .sum = reinterpret_cast<float*>(out + 2 * kMaxBlockRows * kMaxBlockOutputs)};
}

WeightBlock MatrixProducts::weight_block(const LinearWeight& weight, int64_t first, int64_t outputs) {
  // FP8: a block inside a row of scale tiles takes that row's scales.
  const int64_t inside = weight.format == LinearWeight::Format::kFp8 ? first % kScaleTile : 0;
  DI_CHECK(inside + outputs <= kScaleTile || inside == 0, "an FP8 block begins at a scale tile or lies in one");
  const LinearWeight part = weight.rows(first - inside, inside + outputs);
  return {.format = kernel_format(weight),
          .data = static_cast<const uint8_t*>(part.data) + inside * weight.k,
          .scale = part.scale,
          .k = weight.k,
          .outputs = outputs};
}

int64_t MatrixProducts::packed_columns(const LinearWeight& weight) const {
  return kernels_.packed_columns(kernel_format(weight), weight.k);
}

MatrixProducts::Blocks MatrixProducts::blocks_of(int64_t block_rows, int64_t outputs, int64_t tasks) const {
  // Reading a row of activations or decoding a row of weights costs as much as this many of their products.
  constexpr int64_t kRowCost = 128;
  Blocks best{block_rows, kScaleTile, 0};
  for (int64_t block = kScaleTile; block <= kMaxBlockOutputs; block += kScaleTile) {
    const int64_t turns = divide_up(tasks * divide_up(outputs, block), pool_.threads());
    const double cost =
        static_cast<double>(turns) * static_cast<double>(block_rows * block + kRowCost * (block_rows + block));
    if (block == kScaleTile || cost < best.cost) best = {block_rows, block, cost};
  }
  return best;
}

MatrixProducts::Blocks MatrixProducts::choose_blocks(int64_t rows, int64_t outputs, int64_t tasks) const {
  Blocks best = blocks_of(std::min(rows, kMaxBlockRows), outputs, tasks * divide_up(rows, kMaxBlockRows));
  for (int64_t block = kMaxBlockRows / 2; block >= 4 * kTileRows && block < rows; block /= 2) {
    const Blocks smaller = blocks_of(block, outputs, tasks * divide_up(rows, block));
    if (smaller.cost < best.cost) best = smaller;
  }
  return best;
}

int64_t MatrixProducts::few_row_outputs(int64_t rows, int64_t outputs, int64_t output_bytes, int64_t products,
                                        int64_t least) const {
  if (pool_.threads() == 1) return kMaxBlockOutputs;
  // Weights that one thread gets through in two to four microseconds; a hand-off takes one to three.
  const int64_t least_bytes = (int64_t{32} << 10) / std::min<int64_t>(rows, 4);
  // Tasks of a thread.  Many shorten the wait for the last one, but each reads on where nothing has been brought near:
  // of a short product they cost more than they save.
  constexpr int64_t kManyTasks = 32, kFewTasks = 4;
  const int64_t thread_bytes = products * outputs * output_bytes / pool_.threads();
  const int64_t wanted_tasks = std::clamp(thread_bytes >> 15, kFewTasks, kManyTasks) * pool_.threads();
  const auto tasks = [&](int64_t block) { return products * divide_up(outputs, block); };
  const int64_t wanted = std::min(round_up(divide_up(least_bytes, output_bytes), kScaleTile), kMaxBlockOutputs);
  int64_t block = kMaxBlockOutputs;
  while (block > wanted && tasks(block) < wanted_tasks) block -= kScaleTile;
  while (block <= kScaleTile && block > least && tasks(block) < kFewTasks * pool_.threads() &&
         block / 2 * output_bytes >= least_bytes) {
    block /= 2;
  }
  return block;
}

void MatrixProducts::pack_tile(const LinearWeight& weight, const bf16* const* rows, int count, uint16_t* tile) const {
  const uint16_t* bits[kTileRows];
  for (int i = 0; i < count; ++i) bits[i] = reinterpret_cast<const uint16_t*>(rows[i]);
  kernels_.pack(kernel_format(weight), bits, count, weight.k, tile);
}

void MatrixProducts::matmul(const Matmul& op) {
  if (op.x.rows == 0) return;
  DI_CHECK((op.y.data == nullptr) != (op.y32.data == nullptr), "exactly one of y and y32 has data");
  DI_CHECK(op.y.data == nullptr || (op.y.rows == op.x.rows && op.y.columns == op.weight.n), "y is [rows of x, n]");
  DI_CHECK(op.y32.data == nullptr || (op.y32.rows == op.x.rows && op.y32.columns == op.weight.n),
           "y32 is [rows of x, n]");
  multiply(op.x, op.weight, 1, op.y, op.y32);
}

void MatrixProducts::grouped_matmul(const GroupedMatmul& op) {
  DI_CHECK(op.groups > 0 && op.weight.n % (op.groups * kScaleTile) == 0, "n is a multiple of 32 groups");
  DI_CHECK(op.y.rows == op.x.rows && op.y.columns == op.weight.n, "y is [rows of x, n]");
  multiply(op.x, op.weight, op.groups, op.y, {});
}

void MatrixProducts::multiply(MatrixView<const bf16> x, const LinearWeight& weight, int64_t groups, MatrixView<bf16> y,
                              MatrixView<float> y32, void (*finish)(float* y, int64_t count)) {
  DI_CHECK(x.columns == weight.k * groups, "the width of x is the weight's k times the groups");
  DI_CHECK(weight.k % kScaleTile == 0, "k is a multiple of 32");
  if (x.rows == 0) return;
  const int64_t columns = packed_columns(weight);
  const int64_t group_size = x.rows * columns;  // packed elements of one group
  DI_CHECK(static_cast<uint64_t>(groups * group_size) * sizeof(uint16_t) <= packed_.size() && weight.k <= limits_.max_k,
           "a matrix product is beyond the limits of prepare()");
  auto* packed = packed_.as<uint16_t>();

  const int64_t tiles = divide_up(x.rows, kTileRows);
  for_each_row(pool_, tiles * groups, std::min<int64_t>(x.rows, kTileRows) * weight.k, [&](int64_t task, int) {
    const int64_t group = task / tiles, first = task % tiles * kTileRows;
    const int count = static_cast<int>(std::min<int64_t>(kTileRows, x.rows - first));
    const bf16* rows[kTileRows];
    for (int i = 0; i < count; ++i) rows[i] = x.row(first + i) + group * weight.k;
    pack_tile(weight, rows, count, packed + group * group_size + first * columns);
  });

  const int64_t outputs = weight.n / groups;
  Blocks block{x.rows, 0, 0};
  if (x.rows <= kTileRows) {
    block.outputs = few_row_outputs(x.rows, outputs, weight.bytes() / weight.n, groups, 8);
  } else {
    block = choose_blocks(x.rows, outputs, groups);
  }
  const int64_t row_blocks = divide_up(x.rows, block.rows);
  const int64_t blocks = divide_up(outputs, block.outputs);
  pool_.parallel_for(groups * blocks * row_blocks, [&](int64_t task, int thread) {
    // All outputs of some rows before the next rows: a block of packed rows stays in a core's own cache.
    const int64_t group = task / (row_blocks * blocks);
    const int64_t row = task / blocks % row_blocks * block.rows;
    const int64_t within = task % blocks * block.outputs;
    const int64_t first = group * outputs + within;
    const int64_t count = std::min(block.outputs, outputs - within);
    const int64_t rows = std::min(block.rows, x.rows - row);
    ProductOutput out{};
    if (y32.data != nullptr) {
      out = {.fp32 = y32.row(row) + first, .bf16 = nullptr, .stride = y32.stride};
    } else {
      out = {.fp32 = nullptr, .bf16 = reinterpret_cast<uint16_t*>(y.row(row) + first), .stride = y.stride};
    }
    kernels_.multiply(weight_block(weight, first, count), packed + group * group_size + row * columns, rows, out,
                      scratch(thread).kernel);
    if (finish == nullptr) return;
    for (int64_t m = 0; m < rows; ++m) finish(out.fp32 + m * out.stride, count);
  });
}

}  // namespace deepinfer::cpu
