// ChoiceRecord: collects what the tokens of one sequence choose until they are reported: every token once, whatever was
// computed again after a preemption or rolled back with a draft.  Owned by a RunningSequence.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/token_choices.h"
#include "models/choice_sink.h"

namespace deepinfer {

class ChoiceRecord final : public ChoiceSink {
 public:
  ChoiceRecord(const ChoiceCounts& counts, bool experts, bool selected);

  // Position of the first token that has not been reported.
  int64_t first() const { return pending_.first; }
  // Before a step with rows up to `end`.
  void make_room(int64_t end);
  void routed(int64_t position, int64_t router, std::span<const int32_t> experts) override;
  void selected(int64_t position, int64_t indexer, std::span<const int32_t> rows) override;
  // The tokens from first() up to `end`, which all have been computed; what was heard of later ones is forgotten.
  std::unique_ptr<TokenChoices> take(int64_t end);

 private:
  ChoiceCounts counts_;
  int64_t experts_of_token_, selected_of_token_;  // entries; 0: not asked for
  TokenChoices pending_;                          // tokens: of the room that was made
};

}  // namespace deepinfer
