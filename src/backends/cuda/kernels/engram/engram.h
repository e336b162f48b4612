// Engram rows and their mixing into the stream, ops/engram.h.
#pragma once

#include <cstdint>

#include "backends/cuda/launch/stream.h"
#include "base/status.h"
#include "ops/engram.h"

namespace deepinfer::cuda {

// Table rows as they were gathered on the host: [rows * lookups] times width e4m3 bytes, then width / 32 scales; device
// memory.  A row outside the table is all zeros.
Status any_engram_decode(const uint8_t* gathered, int lookups, int64_t width, MatrixView<bf16> e, Stream stream);
// Of a table that the device reads where it lies, its memory or the host's; op.row: device memory.
Status any_engram_gather(const EngramGather& op, Stream stream);
Status any_engram_mix(const EngramMix& op, Stream stream);

}  // namespace deepinfer::cuda
