// Weights where a backend's operations read them.  In the host's memory that is the mapped checkpoint: nothing is
// copied. Another memory gets a copy of all but the Engram tables, whose rows are gathered on the host.  Used by
// DeepseekV41.
#pragma once

#include "base/status.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/layer_table.h"
#include "models/deepseek_v41/weights.h"
#include "tensor/buffer.h"
#include "tensor/checkpoint.h"
#include "tensor/memory.h"

namespace deepinfer::deepseek_v41 {

// Room for the copy.  kResourceExhausted when the memory has none, before any tensor is read.
Result<Buffer> allocate_weights(const Config& config, const LayerTable& table, Memory& memory);

// Copies the tensors of a checkpoint that bind_weights accepts into the room.  Returns views of the copy, and of the
// checkpoint for the Engram tables.  The same tensors lie at the same places each time.  Errors are those of
// Memory::load.
Result<Weights> place_weights(const Config& config, const LayerTable& table, const Checkpoint& checkpoint, Memory& memory,
                      Buffer& room);

}  // namespace deepinfer::deepseek_v41
