#include "engine/sampling_row.h"

namespace deepinfer {

bool penalized(const GenerationParams& params) {
  return params.repetition_penalty != 1 || params.presence_penalty != 0 || params.frequency_penalty != 0;
}

SamplingRow sampling_row(const GenerationParams& params) {
  SamplingRow row;
  row.temperature = params.temperature;
  row.top_p = params.top_p;
  row.min_p = params.min_p;
  row.top_k = params.top_k;
  row.repetition_penalty = params.repetition_penalty;
  row.presence_penalty = params.presence_penalty;
  row.frequency_penalty = params.frequency_penalty;
  row.seed = params.seed;
  row.logit_bias = params.logit_bias;
  row.logprobs = params.logprobs;
  row.raw_logprobs = params.raw_logprobs;
  return row;
}

bool tests_drafts(const GenerationParams& params, int drafts) {
  return params.speculative_sampling == SpeculativeSampling::kRejection && drafts > 0 &&
         params.temperature >= kGreedyBelow;
}

SamplingRow draft_sampling_row(const GenerationParams& params, bool tested) {
  SamplingRow draft = sampling_row(params);
  draft.top_p = 1;
  draft.min_p = 0;
  draft.top_k = 0;
  draft.logprobs = -1;
  if (tested) draft.stream = kDraftStream;
  return draft;
}

}  // namespace deepinfer
