#include "engine/request_sampling.h"

namespace deepinfer {

RequestSampling::RequestSampling(const GenerationParams& params, std::span<const int32_t> prompt) : params_(params) {
  if (penalized()) counts_.add_prompt(prompt);
}

bool RequestSampling::penalized() const {
  return params_.repetition_penalty != 1 || params_.presence_penalty != 0 || params_.frequency_penalty != 0;
}

SamplingRow RequestSampling::row(int64_t position) const {
  SamplingRow row;
  row.temperature = params_.temperature;
  row.top_p = params_.top_p;
  row.min_p = params_.min_p;
  row.top_k = params_.top_k;
  row.repetition_penalty = params_.repetition_penalty;
  row.presence_penalty = params_.presence_penalty;
  row.frequency_penalty = params_.frequency_penalty;
  row.seed = params_.seed;
  row.position = position;
  row.logit_bias = params_.logit_bias;
  row.counts = counts_.list();
  row.logprobs = params_.logprobs;
  row.raw_logprobs = params_.raw_logprobs;
  return row;
}

void RequestSampling::add_rows(int64_t position, std::span<const int32_t> drafts, std::vector<SamplingRow>& rows) {
  rows.push_back(row(position));
  if (penalized()) {
    with_drafts_.clear();
    with_drafts_.reserve(drafts.size());  // rows refer to its elements
    for (const int32_t draft : drafts) {
      with_drafts_.push_back(with_drafts_.empty() ? counts_ : with_drafts_.back());
      with_drafts_.back().add_output(draft);
    }
  }
  for (size_t i = 0; i < drafts.size(); ++i) {
    rows.push_back(row(position + 1 + static_cast<int64_t>(i)));
    if (penalized()) rows.back().counts = with_drafts_[i].list();
  }
}

void RequestSampling::count(int32_t token) {
  if (penalized()) counts_.add_output(token);
}

SamplingRow RequestSampling::draft_row() const {
  SamplingRow draft = row(0);
  draft.top_p = 1;
  draft.min_p = 0;
  draft.top_k = 0;
  draft.logprobs = -1;
  return draft;
}

}  // namespace deepinfer
