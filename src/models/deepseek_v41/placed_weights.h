// Weights where a backend's operations read them: in its memory, in memory of the host that it reaches, or where the
// file is mapped.  Used by DeepseekV41.
//
// Of a backend in the host's memory all tensors stay mapped and nothing is copied, but for Engram tables that are to
// lie in memory.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/layer_table.h"
#include "models/deepseek_v41/tensor_names.h"
#include "models/deepseek_v41/weights.h"
#include "models/model.h"
#include "models/weight_placement.h"
#include "ops/ops.h"
#include "tensor/buffer.h"
#include "tensor/checkpoint.h"

namespace deepinfer::deepseek_v41 {

// What a model's weights take, and where.
class WeightPlan {
 public:
  // kInvalidArgument for a placement that the backend does not have.
  static Result<WeightPlan> make(const Config& config, const LayerTable& table, const WeightPlacement& placement,
                                 Ops& ops);

  WeightPlace place_of(TensorUse use) const;
  uint64_t bytes_at(WeightPlace place) const;
  std::vector<PlacedWeights> kinds() const;
  // kResourceExhausted with the numbers, and with the placement that would fit, where the device or the host has no
  // room.
  Status check_room(Ops& ops) const;

 private:
  uint64_t bytes_of(TensorUse use) const { return bytes_[static_cast<size_t>(use)]; }
  std::string fitting_placement(uint64_t free) const;

  WeightPlacement placement_;
  bool mapped_ = false;                 // the backend's memory is the host's
  std::array<uint64_t, 4> bytes_ = {};  // by TensorUse; each tensor on a boundary of its own
};

class WeightRooms {
 public:
  // Room for what is copied.  Errors as check_room's.
  static Result<WeightRooms> allocate(const WeightPlan& plan, Ops& ops);

  bool copies() const { return memory_.size() + host_.size() > 0; }
  const WeightPlan& plan() const { return plan_; }

  // Copies the tensors of a checkpoint that bind_weights accepts.  Returns views of the copies, and of the checkpoint
  // for what stays mapped.  The same tensors lie at the same places each time.  Errors are those of Memory::load.
  Result<Weights> fill(const Config& config, const LayerTable& table, const Checkpoint& checkpoint, Ops& ops);

 private:
  WeightPlan plan_;
  Buffer memory_;  // of the backend
  Buffer host_;    // that the backend reaches
};

}  // namespace deepinfer::deepseek_v41
