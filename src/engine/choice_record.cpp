#include "engine/choice_record.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace deepinfer {

ChoiceRecord::ChoiceRecord(const ChoiceCounts& counts, bool experts, bool selected)
    : counts_(counts),
      experts_of_token_(experts ? counts.routers * counts.experts : 0),
      selected_of_token_(selected ? counts.indexers * counts.selected : 0) {}

void ChoiceRecord::make_room(int64_t end) {
  if (end <= pending_.first + pending_.tokens) return;
  pending_.tokens = end - pending_.first;
  pending_.experts.resize(static_cast<size_t>(pending_.tokens * experts_of_token_));
  pending_.selected.resize(static_cast<size_t>(pending_.tokens * selected_of_token_));
}

void ChoiceRecord::routed(int64_t position, int64_t router, std::span<const int32_t> experts) {
  if (position < pending_.first || experts_of_token_ == 0) return;
  const int64_t place = (position - pending_.first) * experts_of_token_ + router * counts_.experts;
  std::transform(experts.begin(), experts.end(), pending_.experts.begin() + place,
                 [](int32_t expert) { return static_cast<uint16_t>(expert); });
}

void ChoiceRecord::selected(int64_t position, int64_t indexer, std::span<const int32_t> rows) {
  if (position < pending_.first || selected_of_token_ == 0) return;
  const int64_t place = (position - pending_.first) * selected_of_token_ + indexer * counts_.selected;
  std::copy(rows.begin(), rows.end(), pending_.selected.begin() + place);
}

std::unique_ptr<TokenChoices> ChoiceRecord::take(int64_t end) {
  DI_CHECK(end >= pending_.first && end <= pending_.first + pending_.tokens, "what is reported has been computed");
  auto taken = std::make_unique<TokenChoices>(std::move(pending_));
  taken->tokens = end - taken->first;
  taken->experts.resize(static_cast<size_t>(taken->tokens * experts_of_token_));
  taken->selected.resize(static_cast<size_t>(taken->tokens * selected_of_token_));
  pending_ = {};
  pending_.first = end;
  return taken;
}

}  // namespace deepinfer
