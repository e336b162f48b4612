// Sm90Mixture: the mixture of experts on Hopper (kernels/experts/sm90_experts.h), its scratch memory and tables.
#pragma once

#include "backends/cuda/expert_tables.h"
#include "backends/cuda/kernels/experts/sm90_experts.h"
#include "backends/cuda/launch/device_buffer.h"
#include "backends/cuda/launch/stream.h"
#include "ops/ops.h"

namespace deepinfer::cuda {

class Sm90Mixture {
 public:
  Status prepare(const OpsLimits& limits, Stream stream);
  // Whether the kernels take such weights; it does not depend on the rows.
  static bool takes(const MixtureOfExperts& op);
  Status run(const MixtureOfExperts& op, Stream stream);

 private:
  Status run_few(const Experts& experts, Stream stream);
  Status run_many(const Experts& experts, Stream stream);

  ExpertTables tables_;
  DeviceBuffer hidden_, outputs_;                                      // of each choice
  DeviceBuffer counts_, tile_list_, choice_, x_image_, hidden_image_;  // ExpertTiles
};

}  // namespace deepinfer::cuda
