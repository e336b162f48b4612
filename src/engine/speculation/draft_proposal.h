// DraftProposal: the drafts of one request under rejection sampling (specs: dspark.md 5.2, mode R), from the moment
// they are drawn to the last choice that they have a part in.  Owned by a request's sequence.
//
// A proposal speaks of the next choices: one for each draft, and a plain one after the last.  It is over with the first
// draft that is not taken, or with the plain choice.  How many of its drafts a step verifies is free: those that are
// not reached wait for the next step.  So the tokens are a function of prompt, parameters and seed, whatever the
// schedule.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/sample.h"
#include "tensor/matrix.h"
#include "tensor/memory.h"

namespace deepinfer {

class DraftProposal {
 public:
  // Whether there are choices to come that it speaks of; else the next ones need a new proposal.
  bool open() const { return open_; }
  // Opens it.  logits: [tokens.size(), vocabulary] in `memory`, what the tokens were drawn from; copied.
  void begin(std::span<const int32_t> tokens, MatrixView<const float> logits, Memory& memory);

  // Drafts that have not been tested.
  std::span<const int32_t> drafts() const { return std::span(tokens_).subspan(next_); }
  // Makes `row` of the choice after the next `index` ones a test of its draft, where there is one.  The row refers to
  // this object.
  void add_test(int64_t index, SamplingRow& row) const;
  // The next choice has been made.
  void decide(int32_t token);

 private:
  std::vector<int32_t> tokens_;
  std::vector<float> logits_;  // [drafts, vocabulary]
  size_t vocabulary_ = 0;
  size_t next_ = 0;
  bool open_ = false;
};

}  // namespace deepinfer
