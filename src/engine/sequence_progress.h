// SequenceProgress: how far one sequence has come and what its rings hold, in the terms of Model::resumable.  A value;
// whoever owns the sequence's records keeps one beside them.
#pragma once

#include <cstdint>

#include "models/model.h"

namespace deepinfer {

class SequenceProgress {
 public:
  // Goes on at `written.processed`; `rule` holds until the next start.
  void start(const Model& model, const WrittenRows& written, int64_t draft_context_from, const RowRule& rule);
  // A step has stored the rows of [processed, end), with or without their draft context; `kept` of them count.
  void commit(int64_t end, int64_t kept, bool draft_context);

  int64_t processed() const { return written_.processed; }
  const WrittenRows& written() const { return written_; }
  const RowRule& rule() const { return rule_; }
  // Draft context exists for [draft_context_from, processed).
  int64_t draft_context_from() const { return draft_context_from_; }

 private:
  WrittenRows written_;
  RowRule rule_;
  int64_t draft_context_from_ = 0;
  int64_t draft_context_start_ = 0;  // of the rule
};

}  // namespace deepinfer
