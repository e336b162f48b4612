// What a checkpoint is made of, in numbers: bytes by part, memory of a sequence, hardware that holds it.
// Computed from the config and the list of tensors; printed by `deepinfer inspect`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/layer_table.h"
#include "tensor/checkpoint.h"
#include "tensor/tensor.h"

namespace deepinfer::cli {

struct TensorEntry {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;
  uint64_t bytes = 0;
  std::string file;  // plain name; empty where there are no weights
};

struct ModelPart {
  std::string_view name;
  int64_t tensors = 0;
  uint64_t parameters = 0;  // FP4 counts two a byte; scales count as none
  uint64_t bytes = 0;
};

// How many of one kind of machine hold the weights that every token needs, with a tenth of each left for the rest.
struct Hardware {
  std::string_view name;
  uint64_t memory_bytes = 0;
  int64_t needed = 0;
};

struct ModelSummary {
  std::vector<ModelPart> parts;  // those that the checkpoint has, in the order of the model
  ModelPart total;
  uint64_t engram_table_bytes = 0;  // gathered by row where they lie: need no memory
  uint64_t resident_bytes = 0;      // all weights but the Engram tables and the picture encoder
  int64_t kv_bytes_per_token = 0;
  int64_t bytes_per_sequence = 0;  // rings and half groups, with the model's own number of drafts
  uint64_t machine_memory_bytes = 0;
  std::vector<Hardware> hardware;
};

std::vector<TensorEntry> tensors_of(const Checkpoint& checkpoint);
// What the config asks for; for folders without weights.
std::vector<TensorEntry> tensors_of(const deepseek_v41::Config& config, const deepseek_v41::LayerTable& table);

ModelSummary summarize(const deepseek_v41::Config& config, const deepseek_v41::LayerTable& table,
                       const std::vector<TensorEntry>& tensors);

// The part that a tensor belongs to, by its name.
std::string_view part_of(std::string_view tensor_name);

}  // namespace deepinfer::cli
