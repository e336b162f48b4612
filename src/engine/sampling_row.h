// A request's sampling parameters as a row of the sampler: what generator and engine have in common.
#pragma once

#include "engine/generator.h"
#include "ops/sample.h"

namespace deepinfer {

// Whether the counts of tokens matter.
bool penalized(const GenerationParams& params);

// Everything that the parameters say.  Position, stream, counts and masks are the caller's.  Refers to params.
SamplingRow sampling_row(const GenerationParams& params);

// For drafts: the same noise, bias and penalties, without filters (they change acceptance only).
SamplingRow draft_sampling_row(const GenerationParams& params);

}  // namespace deepinfer
