// A request's sampling parameters as a row of the sampler: what generator and engine have in common.
#pragma once

#include "engine/generator.h"
#include "ops/sample.h"

namespace deepinfer {

// Whether the counts of tokens matter.
bool penalized(const GenerationParams& params);

// Everything that the parameters say.  Position, stream, counts and masks are the caller's.  Refers to params.
SamplingRow sampling_row(const GenerationParams& params);

// Whether choices are tests of drafts (ops/sample.h, DraftTest) for a request with `drafts` drafts a round.
bool tests_drafts(const GenerationParams& params, int drafts);

// For drafts: the same bias and penalties, without filters (they change acceptance only); the same noise too,
// unless drafts are tested: then it has to be other noise.
SamplingRow draft_sampling_row(const GenerationParams& params, bool tested);

}  // namespace deepinfer
