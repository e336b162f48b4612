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
  // A step stores this many rows, with or without their draft context.  One that is never committed counts as rolled
  // back.
  void write(int64_t rows, bool draft_context);
  // The step has run: its first `kept` rows count.
  void commit(int64_t kept);

  int64_t processed() const { return written_.processed; }
  const WrittenRows& written() const { return written_; }
  const RowRule& rule() const { return rule_; }
  // Draft context exists for [draft_context_from, processed).
  int64_t draft_context_from() const { return draft_context_from_; }

 private:
  WrittenRows written_;
  RowRule rule_;
  int64_t draft_context_from_ = 0;
  int64_t draft_context_start_ = 0;    // of the rule
  bool writes_draft_context_ = false;  // the step under way
};

}  // namespace deepinfer
