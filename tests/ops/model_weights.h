// The demonstration model's weights by checkpoint name, as the operations take them.
#pragma once

#include <string>

#include "ops/engram.h"
#include "ops/hyper_connection.h"
#include "ops/linear.h"
#include "ops/moe.h"
#include "tensor/checkpoint.h"

namespace deepinfer {

class ModelWeights {
 public:
  static const ModelWeights& demonstration();  // models/DeepSeek-V4.1-Tiny, opened once

  LinearWeight linear(const std::string& name) const;   // NAME.weight and, where quantised, NAME.scale
  LinearWeight plain(const std::string& tensor) const;  // a bf16 matrix by its full name
  MatrixView<const bf16> matrix(const std::string& tensor) const;
  const bf16* vector(const std::string& tensor) const;
  const float* floats(const std::string& tensor) const;
  ExpertWeights expert(const std::string& prefix) const;                     // PREFIX.w1, .w3, .w2
  HyperConnectionWeights hyper_connection(const std::string& prefix) const;  // PREFIX_fn, _base, _scale
  EngramTable engram_table(const std::string& name) const;

 private:
  explicit ModelWeights(Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}
  TensorView tensor(const std::string& name) const;

  Checkpoint checkpoint_;
};

}  // namespace deepinfer
