#include "backends/cuda/sm90_mixture.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/check.h"

namespace deepinfer::cuda {
namespace {

using Format = LinearWeight::Format;

constexpr int64_t kManyRows = 8192;  // at once
constexpr int64_t kFewOfExpert = 8;  // rows that the kernels for few rows take in one pass

bool has_format(const ExpertWeights& expert, Format format, int64_t d, int64_t width) {
  const auto fits = [&](const LinearWeight& w, int64_t n, int64_t k) {
    return w.format == format && w.n == n && w.k == k && reinterpret_cast<uintptr_t>(w.data) % 16 == 0 &&
           reinterpret_cast<uintptr_t>(w.scale) % 16 == 0;
  };
  return fits(expert.w1, width, d) && fits(expert.w3, width, d) && fits(expert.w2, d, width);
}

const ExpertWeights* first_expert(const MixtureOfExperts& op) {
  const ExpertWeights* const end = op.experts + op.expert_count;  // some may be empty: nobody chooses those
  const ExpertWeights* const any =
      std::find_if(op.experts, end, [](const ExpertWeights& expert) { return !expert.w1.empty(); });
  return any == end ? nullptr : any;
}

}  // namespace

Status Sm90Mixture::prepare(const OpsLimits& limits, Stream stream) {
  const int64_t rows = std::clamp<int64_t>(limits.rows, 1, kManyRows), few = std::min(rows, kExpertFewRows);
  const int64_t top_k = limits.experts_per_token;
  DI_RETURN_IF_ERROR(tables_.prepare(limits.experts, stream));
  const auto allocate = [](DeviceBuffer& buffer, int64_t bytes) -> Status {
    DI_ASSIGN_OR_RETURN(buffer, DeviceBuffer::allocate(std::max<int64_t>(bytes, 256)));
    return {};
  };
  DI_RETURN_IF_ERROR(allocate(hidden_, few * (top_k + 1) * limits.expert_width * 4));
  DI_RETURN_IF_ERROR(allocate(outputs_, rows * (top_k + 1) * limits.hidden * 2));
  if (rows <= kFewOfExpert) return {};
  const int64_t slots = expert_most_groups(rows, top_k, limits.experts) * 8;
  DI_RETURN_IF_ERROR(allocate(counts_, sizeof(ExpertTileCounts)));
  DI_RETURN_IF_ERROR(
      allocate(tile_list_, expert_most_tiles(rows, top_k, limits.experts) * int64_t{sizeof(ExpertTile)}));
  DI_RETURN_IF_ERROR(allocate(choice_, slots * 4));
  DI_RETURN_IF_ERROR(allocate(x_image_, slots * limits.hidden * 2));
  return allocate(hidden_image_, slots * limits.expert_width * 2);
}

bool Sm90Mixture::takes(const MixtureOfExperts& op) {
  const int64_t d = op.x.columns;
  const ExpertWeights* const first = op.expert.columns > 0 ? first_expert(op) : nullptr;
  const bool shared = !op.shared.w1.empty();
  if (first == nullptr && !shared) return false;
  const int64_t width = first != nullptr ? first->w1.n : op.shared.w1.n;
  return d % 32 == 0 && width % 32 == 0 && std::max(d, width) <= kExpertMostColumns &&
         op.expert_count <= kExpertFewMostExperts && (first == nullptr || has_format(*first, Format::kFp4, d, width)) &&
         (!shared || has_format(op.shared, Format::kFp8, d, width));
}

Status Sm90Mixture::run(const MixtureOfExperts& op, Stream stream) {
  const int64_t d = op.x.columns, top_k = op.expert.columns;
  const ExpertWeights* const first = first_expert(op);
  Experts experts;
  experts.width = first != nullptr && top_k > 0 ? first->w1.n : op.shared.w1.n;
  experts.expert_count = op.expert_count;
  experts.limit = op.limit;
  if (op.expert_count > 0) experts.experts = tables_.find(op.experts, op.expert_count);
  if (op.expert_count > 0 && experts.experts == nullptr) {
    DI_CHECK(std::all_of(op.experts, op.experts + op.expert_count,
                         [&](const ExpertWeights& expert) {
                           return expert.w1.empty() || has_format(expert, first->w1.format, d, first->w1.n);
                         }),
             "the experts of a layer have one width and the same formats, on 16-byte boundaries");
    DI_ASSIGN_OR_RETURN(experts.experts, tables_.add(op.experts, op.expert_count));
  }
  if (!op.shared.w1.empty()) {
    const auto bytes = [](const LinearWeight& weight) { return static_cast<const uint8_t*>(weight.data); };
    experts.shared = {bytes(op.shared.w1), op.shared.w1.scale,  bytes(op.shared.w3),
                      op.shared.w3.scale,  bytes(op.shared.w2), op.shared.w2.scale};
  }
  DI_CHECK(reinterpret_cast<uintptr_t>(op.x.data) % 16 == 0 && op.x.stride % 8 == 0,
           "rows that enter a product lie on 16-byte boundaries");
  experts.hidden = hidden_.as<float>();
  experts.outputs = outputs_.as<bf16>();
  const bool many = sm90_experts_many_takes(d, experts.width);
  const bool few = op.x.rows <= kExpertFewRows || !many;
  experts.heavy_rows = !many ? std::numeric_limits<int64_t>::max() : few ? kFewOfExpert + 1 : 0;
  const int64_t most_few = std::min(kExpertFewRows, top_k == 0 ? kExpertFewRows : kExpertFewChoices / top_k);
  const int64_t most = few ? most_few : kManyRows;
  for (int64_t row = 0; row < op.x.rows; row += most) {
    const int64_t rows = std::min(most, op.x.rows - row);
    experts.x = op.x.rows_from(row, rows);
    experts.expert = op.expert.rows_from(row, rows);
    experts.weight = op.weight.rows_from(row, rows);
    experts.y = op.y.rows_from(row, rows);
    DI_CHECK(rows * (top_k + 1) * d * 2 <= outputs_.bytes(), "rows, experts and hidden of limits");
    if (few) DI_RETURN_IF_ERROR(run_few(experts, stream));
    if (rows >= experts.heavy_rows) DI_RETURN_IF_ERROR(run_many(experts, stream));
    DI_RETURN_IF_ERROR(sm90_combine_experts(experts, stream));
  }
  return {};
}

Status Sm90Mixture::run_few(const Experts& experts, Stream stream) {
  DI_CHECK(experts.x.rows * (experts.expert.columns + 1) * experts.width * 4 <= hidden_.bytes(),
           "rows, experts and widths of limits");
  DI_RETURN_IF_ERROR(sm90_expert_hidden_few(experts, stream));
  return sm90_expert_output_few(experts, stream);
}

Status Sm90Mixture::run_many(const Experts& experts, Stream stream) {
  const int64_t rows = experts.x.rows, top_k = experts.expert.columns;
  const int64_t slots = expert_most_groups(rows, top_k, experts.expert_count) * 8;
  DI_CHECK(slots * 4 <= choice_.bytes() && slots * experts.x.columns * 2 <= x_image_.bytes() &&
               slots * experts.width * 2 <= hidden_image_.bytes() &&
               expert_most_tiles(rows, top_k, experts.expert_count) * int64_t{sizeof(ExpertTile)} <= tile_list_.bytes(),
           "rows, experts and widths of limits");
  const ExpertTiles tiles{counts_.as<ExpertTileCounts>(), tile_list_.as<ExpertTile>(), choice_.as<int32_t>(),
                          x_image_.data(), hidden_image_.data()};
  DI_RETURN_IF_ERROR(sm90_list_expert_tiles(experts, tiles, stream));
  DI_RETURN_IF_ERROR(sm90_expert_hidden_many(experts, tiles, stream));
  return sm90_expert_output_many(experts, tiles, stream);
}

}  // namespace deepinfer::cuda
