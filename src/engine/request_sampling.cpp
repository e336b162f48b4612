#include "engine/request_sampling.h"

#include <utility>

#include "engine/sampling_row.h"

namespace deepinfer {

RequestSampling::RequestSampling(const EngineRequest& request, std::span<const int32_t> prompt, int32_t vocabulary,
                                 std::optional<GrammarMatcher> grammar)
    : request_(request),
      params_(request.params),
      prompt_tokens_(static_cast<int64_t>(prompt.size())),
      tests_drafts_(deepinfer::tests_drafts(params_, params_.draft_tokens)),
      rules_(request, vocabulary, std::move(grammar)) {
  if (penalized(params_)) counts_.add_prompt(prompt);
}

SamplingRow RequestSampling::row(int64_t position, int64_t index) const {
  SamplingRow row = sampling_row(params_);
  row.position = position;
  row.stream = 256 * request_.choice;
  const auto answer_index = static_cast<size_t>(position - prompt_tokens_);
  if (answer_index < request_.forced_tokens.size()) row.forced = request_.forced_tokens[answer_index];
  if (rules_.any()) row.allowed = rules_.mask(index);
  row.counts = counts_.list();
  proposal_.add_test(index, row);
  return row;
}

void RequestSampling::add_rows(int64_t position, std::span<const int32_t> drafts, std::vector<SamplingRow>& rows) {
  rows.push_back(row(position, 0));
  if (penalized(params_)) {
    with_drafts_.clear();
    with_drafts_.reserve(drafts.size());  // rows refer to its elements
    for (const int32_t draft : drafts) {
      with_drafts_.push_back(with_drafts_.empty() ? counts_ : with_drafts_.back());
      with_drafts_.back().add_output(draft);
    }
  }
  for (size_t i = 0; i < drafts.size(); ++i) {
    const auto index = static_cast<int64_t>(i) + 1;
    rows.push_back(row(position + index, index));
    if (penalized(params_)) rows.back().counts = with_drafts_[i].list();
  }
}

SamplingRow RequestSampling::prompt_row(int32_t token) const {
  SamplingRow row;
  row.temperature = params_.temperature;
  row.top_p = params_.top_p;
  row.min_p = params_.min_p;
  row.top_k = params_.top_k;
  row.logprobs = request_.prompt_logprobs;
  row.raw_logprobs = params_.raw_logprobs;
  row.forced = token;
  return row;
}

bool RequestSampling::count(int32_t token) {
  proposal_.decide(token);
  if (penalized(params_)) counts_.add_output(token);
  return rules_.accept(token);
}

SamplingRow RequestSampling::draft_row() const {
  SamplingRow draft = draft_sampling_row(params_, tests_drafts_);
  draft.stream += 256 * request_.choice;
  draft.counts = counts_.list();
  return draft;
}

}  // namespace deepinfer
