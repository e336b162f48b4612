#include "engine/running_sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/caught_exception.h"
#include "base/check.h"
#include "engine/undrawable_row.h"

namespace deepinfer {

RunningSequence::RunningSequence(RequestId id, EngineRequest request, const ModelInfo& model,
                                 std::optional<GrammarMatcher> grammar)
    : id_(id),
      request_(std::move(request)),
      sampling_(request_, request_.prompt, model.vocabulary, std::move(grammar)),
      replay_from_(request_.prefix_replay == PrefixReplay::kBounded ? replay_from(request_) : 0),
      tokens_(std::move(request_.prompt)),
      prompt_tokens_(static_cast<int64_t>(tokens_.size())),
      known_(prompt_tokens_),
      most_tokens_(prompt_tokens_ + request_.params.max_tokens) {
  if (request_.capture_routed_experts || request_.capture_selected_indices)
    choices_.emplace(model.choices, request_.capture_routed_experts, request_.capture_selected_indices);
}

int64_t RunningSequence::complete_from() const {
  if (wants_prompt_logprobs()) return 0;
  return choices_ ? choices_->first() : known_ - 1;
}

void RunningSequence::record_choices() {
  if (!choices_) return;
  choices_->make_room(step_.position + step_.rows);
  step_.choices = &*choices_;
}

std::unique_ptr<TokenChoices> RunningSequence::take_choices() {
  return choices_ ? choices_->take(progress_.processed()) : nullptr;
}

int RunningSequence::most_drafts() const {
  return static_cast<int>(std::clamp<int64_t>(most_tokens_ - known_ - 1, 0, request_.params.draft_tokens));
}

void RunningSequence::admit(const Admission& admission, std::span<const BlockId> table, const WrittenRows& written,
                            const Model& model, CacheMemory& memory) {
  DI_CHECK(admission.known_tokens == known_, "scheduler and executor know the same tokens of a sequence");
  most_tokens_ = std::min(most_tokens_, admission.most_tokens);
  state_slot_ = admission.state_slot;
  rings_ = memory.rings(state_slot_);
  parts_.resize(static_cast<size_t>(memory.histories()));
  histories_.resize(parts_.size());
  for (auto& parts : parts_) parts.clear();
  const int64_t draft_context_from = admission.restores ? admission.restored.draft_context_from : 0;
  prompt_logprobs_.clear();  // a prompt that was preempted is reported from its beginning
  progress_.start(model, written, draft_context_from, row_rule());
  grow(table, memory);
}

RowRule RunningSequence::row_rule() const {
  if (replay_from_ > 0) return {RowRule::Kind::kBoundedReplay, replay_from_};
  return {RowRule::Kind::kExact, complete_from()};
}

void RunningSequence::grow(std::span<const BlockId> blocks, CacheMemory& memory) {
  for (size_t h = 0; h < parts_.size(); ++h) {
    const auto history = static_cast<int64_t>(h);
    for (const BlockId block : blocks) parts_[h].push_back(memory.history_part(block, history));
    histories_[h] = memory.history(history, parts_[h]);
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
  prompt_rows_ = 0;
  if (wants_prompt_logprobs()) {
    step_.logits_from = chunk.position;
    logit_rows_ = chunk.rows;
    prompt_rows_ = chunk.last ? chunk.rows - 1 : chunk.rows;
  }
  step_.cache = view();
  step_.position = chunk.position;
  step_.rule = progress_.rule();
  step_.draft_context = request_.params.draft_tokens > 0;
  record_choices();
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
  prompt_rows_ = 0;
  step_.cache = view();
  step_.position = known_ - 1;
  step_.rule = progress_.rule();
  step_.draft_context = request_.params.draft_tokens > 0;
  record_choices();
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

void RunningSequence::fill_masks() noexcept {
  const std::span<const int32_t> tokens(tokens_);
  const auto known = static_cast<size_t>(known_);
  try {
    mask_failure_ = sampling_.fill_masks(tokens.subspan(static_cast<size_t>(prompt_tokens_), known - prompt_tokens_),
                                         tokens.subspan(known));
  } catch (...) {
    mask_failure_ = caught_exception("the masks of a step");
  }
}

void RunningSequence::add_sampling(std::vector<SamplingRow>& rows) {
  for (int64_t i = 0; i < prompt_rows_; ++i)
    rows.push_back(sampling_.prompt_row(tokens_[static_cast<size_t>(step_.position + i + 1)]));
  if (!samples()) return;
  const auto drafts = std::span<const int32_t>(tokens_).subspan(static_cast<size_t>(known_));
  sampling_.add_rows(known_, drafts, rows);
}

GeneratedToken RunningSequence::reported(const SampledRow& choice, MatrixView<const TokenLogprob> top, int64_t row,
                                         int64_t position, int32_t logprobs) const {
  GeneratedToken token;
  token.token = choice.token;
  token.position = position;
  token.logprob = choice.logprob;
  for (int64_t i = 0; i < logprobs; ++i) {
    if (top.row(row)[i].token >= 0) token.top_logprobs.push_back(top.row(row)[i]);
  }
  return token;
}

void RunningSequence::decide(const SampledRow& choice, GeneratedToken token, Decided& decided,
                             std::vector<GeneratedToken>& out) {
  if (!sampling_.count(choice.token)) {
    decided.ended = EndReason::kError;
    decided.failure = invalid_argument(
        fmt::format("forced_tokens: token {} at position {} breaks the request's grammar", choice.token, known_));
    return;
  }
  ++known_;
  ++decided.tokens;
  out.push_back(std::move(token));
  const auto& stops = request_.params.stop_tokens;
  if (std::find(stops.begin(), stops.end(), choice.token) != stops.end()) {
    decided.ended = EndReason::kStop;
  } else if (known_ >= most_tokens_) {
    decided.ended = EndReason::kLength;
  }
}

RunningSequence::Decided RunningSequence::take(std::span<const SampledRow> choices, MatrixView<const float> logits,
                                               MatrixView<const TokenLogprob> top, Memory& memory,
                                               std::vector<GeneratedToken>& out) {
  Decided decided;
  const auto fail = [&](int64_t row, int64_t position) {
    decided.ended = EndReason::kError;
    decided.failure = !mask_failure_.ok() ? mask_failure_
                                          : undrawable(memory, logits.rows_from(row, 1), position, sampling_.masked());
  };
  for (int64_t row = 0; row < prompt_rows_ && !decided.ended; ++row) {
    const SampledRow& choice = choices[static_cast<size_t>(row)];
    const int64_t position = step_.position + row + 1;
    if (drawn(choice)) {
      prompt_logprobs_.push_back(reported(choice, top, row, position, request_.prompt_logprobs));
    } else {
      fail(row, position);
    }
  }
  // Row i behind the prompt's rows chooses the token of position known + i.  It is what plain decoding would choose as
  // long as the rows before it held the tokens that were chosen.
  int64_t row = prompt_rows_;
  while (row < logit_rows_ && !decided.ended) {
    const SampledRow& choice = choices[static_cast<size_t>(row)];
    if (!mask_failure_.ok() || !drawn(choice)) {
      fail(row++, known_);
      break;
    }
    const bool verifies = row + 1 < logit_rows_;  // there is a draft in the place of this choice
    const bool right = verifies && tokens_[static_cast<size_t>(known_)] == choice.token;
    if (!right) {
      tokens_.resize(static_cast<size_t>(known_));
      tokens_.push_back(choice.token);
    }
    decided.right += right ? 1 : 0;
    // With a wrong one all behind it are, in front of the end of an answer none is.
    decided.judged = right ? decided.right : logit_rows_ - 1 - prompt_rows_;
    decide(choice, reported(choice, top, row, known_, request_.params.logprobs), decided, out);
    ++row;
    if (!right) break;
  }
  tokens_.resize(static_cast<size_t>(known_));
  mask_failure_ = {};
  // All rows of a prompt count; of a decode step those that held decided tokens.
  progress_.commit(samples() && step_.rows == logit_rows_ && prompt_rows_ == 0 ? row : step_.rows);
  ended_ = decided.ended.has_value();
  return decided;
}

}  // namespace deepinfer
