// The tensors of a checkpoint: one description of names, dtypes and shapes (specs: v41-model.md section 5) that serves
// the loader, `deepinfer inspect --verify` and the synthetic checkpoints of tests and benchmarks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/layer_table.h"
#include "models/deepseek_v41/weights.h"
#include "tensor/checkpoint.h"
#include "tensor/tensor.h"

namespace deepinfer::deepseek_v41 {

struct ExpectedTensor {
  std::string name;
  DType dtype = DType::kBF16;
  Shape shape;
  uint64_t bytes() const;
};

// Every tensor of the config: embedding and head, layers, Engram tables, draft, picture encoder.
std::vector<ExpectedTensor> expected_tensors(const Config& config, const LayerTable& table);

// What a checkpoint has against what its config asks for.
struct TensorAudit {
  std::vector<std::string> missing;     // names
  std::vector<std::string> wrong;       // messages: file, tensor, found and expected dtype and shape
  std::vector<std::string> unexpected;  // names
  std::vector<std::string> ignored;     // copies of embedding and head in draft stages, which are tied
  int64_t tensors = 0;                  // that were expected and are right
  uint64_t bytes = 0;                   // of these

  bool ok(bool allow_extra) const { return missing.empty() && wrong.empty() && (allow_extra || unexpected.empty()); }
  // The first names of each list and the numbers.
  Status status(bool allow_extra) const;
};

TensorAudit audit_tensors(const Config& config, const LayerTable& table, const Checkpoint& checkpoint);

// A tensor's name as this checkpoint spells it: an optional "model." in front is accepted everywhere.  Empty where
// there is no such tensor.
std::string stored_name(const Checkpoint& checkpoint, std::string_view name);

// Views of all tensors.  Every tensor of the checkpoint is accounted for: missing, wrong and unexpected ones are an
// error that lists their names; allow_extra lets unexpected ones pass.  No tensor data is read.
Result<Weights> bind_weights(const Config& config, const LayerTable& table, const Checkpoint& checkpoint,
                             bool allow_extra);

// Engram tables far larger than memory are read by single rows: no read-ahead for these, it would only evict other
// pages.
void expect_single_rows(const Config& config, const Checkpoint& checkpoint);

}  // namespace deepinfer::deepseek_v41
