// Steps that take rows one by one: ops/embed.h, gather_rows.h, norm.h, rope.h, linear.h (QuantizeActivation) and
// sample.h (AddRows).  Operands as there, all in device memory; `index` too.
#pragma once

#include "backends/cuda/launch/stream.h"
#include "base/status.h"
#include "ops/embed.h"
#include "ops/gather_rows.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/rope.h"
#include "ops/sample.h"

namespace deepinfer::cuda {

Status any_embed_tokens(const EmbedTokens& op, Stream stream);
Status any_gather_rows(const GatherRows& op, Stream stream);
Status any_rms_norm(const RmsNorm& op, Stream stream);
Status any_rope(const Rope& op, Stream stream);
// The rotation, then QuantizeActivation of the whole row, in place; where rows and heads are whole units of channels.
bool any_rope_quantize_takes(const Rope& op);
Status any_rope_quantize(const Rope& op, Stream stream);
Status any_quantize_activation(const QuantizeActivation& op, Stream stream);
Status any_add_rows(const AddRows& op, Stream stream);

}  // namespace deepinfer::cuda
