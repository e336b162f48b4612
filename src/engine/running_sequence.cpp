#include "engine/running_sequence.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/undrawable_row.h"

namespace deepinfer {

RunningSequence::RunningSequence(RequestId id, std::vector<int32_t> prompt, GenerationParams params, int drafts)
    : id_(id),
      params_(std::move(params)),
      drafts_(drafts),
      sampling_(params_, prompt),
      tokens_(std::move(prompt)),
      prompt_tokens_(static_cast<int64_t>(tokens_.size())),
      known_(prompt_tokens_) {}

int RunningSequence::most_drafts() const {
  const int64_t left = params_.max_tokens - (known_ - prompt_tokens_);
  return static_cast<int>(std::clamp<int64_t>(left - 1, 0, drafts_));
}

void RunningSequence::admit(const Admission& admission, std::span<const BlockId> table, const WrittenRows& written,
                            const RowRule& rule, const Model& model, CacheMemory& memory) {
  DI_CHECK(admission.known_tokens == known_, "scheduler and executor know the same tokens of a sequence");
  state_slot_ = admission.state_slot;
  rings_ = memory.rings(state_slot_);
  parts_.resize(static_cast<size_t>(memory.histories()));
  histories_.resize(parts_.size());
  for (auto& parts : parts_) parts.clear();
  const int64_t draft_context_from = admission.restores ? admission.restored.draft_context_from : 0;
  progress_.start(model, written, draft_context_from, rule);
  grow(table, memory);
}

void RunningSequence::grow(std::span<const BlockId> blocks, CacheMemory& memory) {
  for (size_t h = 0; h < parts_.size(); ++h) {
    const auto history = static_cast<int64_t>(h);
    for (const BlockId block : blocks) parts_[h].push_back(memory.history_part(block, history));
    histories_[h] = memory.history(history, parts_[h].data());
  }
}

void RunningSequence::retire() {
  state_slot_ = -1;
  rings_ = {};
  for (auto& parts : parts_) parts.clear();
}

StepSequence RunningSequence::prefill(const PrefillChunk& chunk) {
  DI_CHECK(chunk.position == progress_.processed(), "a chunk goes on where the sequence is");
  const int64_t end = chunk.position + chunk.rows;
  DI_CHECK(end <= known_ && chunk.last == (end == known_), "a chunk holds known tokens, the last one the last of them");
  step_ = {};
  step_.tokens = std::span<const int32_t>(tokens_).first(static_cast<size_t>(end));
  step_.rows = chunk.rows;
  step_.logits_from = known_ - 1;
  logit_rows_ = chunk.last ? 1 : 0;
  step_.cache = view();
  step_.position = chunk.position;
  step_.rule = progress_.rule();
  step_.draft_context = drafts_ > 0;
  progress_.write(step_.rows, step_.draft_context);
  return step_;
}

StepSequence RunningSequence::decode(std::span<const int32_t> drafts) {
  DI_CHECK(progress_.processed() == known_ - 1, "a decode step processes the last decided token");
  tokens_.insert(tokens_.end(), drafts.begin(), drafts.end());
  step_ = {};
  step_.tokens = tokens_;
  step_.rows = 1 + static_cast<int64_t>(drafts.size());
  step_.logits_from = known_ - 1;
  logit_rows_ = step_.rows;
  step_.cache = view();
  step_.position = known_ - 1;
  step_.rule = progress_.rule();
  step_.draft_context = drafts_ > 0;
  progress_.write(step_.rows, step_.draft_context);
  return step_;
}

DraftSequence RunningSequence::draft_request(int drafts) const {
  DraftSequence request;
  request.cache = view();
  request.token = tokens_[static_cast<size_t>(known_ - 1)];
  request.position = progress_.processed();
  request.context_from = progress_.draft_context_from();
  request.drafts = drafts;
  request.sampling = sampling_.draft_row();
  return request;
}

void RunningSequence::add_sampling(std::vector<SamplingRow>& rows) {
  if (logit_rows_ == 0) return;
  const auto drafts = std::span<const int32_t>(tokens_).subspan(static_cast<size_t>(known_));
  sampling_.add_rows(known_, drafts, rows);
}

RunningSequence::Decided RunningSequence::take(std::span<const SampledRow> choices, MatrixView<const float> logits,
                                               MatrixView<const TokenLogprob> top, std::vector<GeneratedToken>& out) {
  Decided decided;
  if (logit_rows_ == 0) {
    progress_.commit(step_.rows);
    return decided;
  }
  // Row i of the logits chooses the token of position known + i.  It is what plain decoding would choose as long as the
  // rows before it held the tokens that were chosen.
  const int64_t first = known_;
  int64_t right = 0;
  while (right < logit_rows_ && !decided.ended) {
    const SampledRow& choice = choices[static_cast<size_t>(right)];
    if (!drawn(choice)) {
      decided.ended = true;
      decided.failure = undrawable(logits.rows_from(right, 1), known_);
      ++right;
      break;
    }
    GeneratedToken token;
    token.token = choice.token;
    token.position = known_;
    token.logprob = choice.logprob;
    for (int64_t i = 0; i < params_.logprobs; ++i) {
      if (top.row(right)[i].token >= 0) token.top_logprobs.push_back(top.row(right)[i]);
    }
    const int32_t draft = right + 1 < logit_rows_ ? tokens_[static_cast<size_t>(known_)] : -1;
    sampling_.count(choice.token);
    if (draft != choice.token) tokens_.resize(static_cast<size_t>(known_));
    if (draft != choice.token) tokens_.push_back(choice.token);
    ++known_;
    ++decided.tokens;
    ++right;
    out.push_back(std::move(token));
    const bool stop =
        std::find(params_.stop_tokens.begin(), params_.stop_tokens.end(), choice.token) != params_.stop_tokens.end();
    if (stop || known_ - prompt_tokens_ >= params_.max_tokens) {
      decided.ended = true;
      decided.finish = stop ? FinishReason::kStop : FinishReason::kLength;
    }
    if (draft != choice.token) break;
  }
  tokens_.resize(static_cast<size_t>(known_));
  // Rows before the first decided position count whole; of the rest those that held decided tokens.
  const int64_t kept = first - step_.position + right - 1;
  progress_.commit(kept);
  ended_ = decided.ended;
  return decided;
}

}  // namespace deepinfer
