// GrammarMatcher: where one request stands in its grammar.  Used by one thread at a time; different matchers may be
// used at once.  It advances by tokens that are final only; drafts are looked at with masks_along.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "grammar/grammar_compiler.h"

namespace deepinfer {

class GrammarMatcher {
 public:
  // Takes the trigger and bound tokens of `spec`, and how tool calls begin; `grammar` is what the spec was compiled to.
  // `stop_tokens` end the answer: they are allowed exactly where the grammar may end.  Error: kInvalidArgument for ids
  // out of the vocabulary.
  static Result<GrammarMatcher> create(SharedGrammar grammar, const GrammarSpec& spec,
                                       std::span<const int32_t> stop_tokens);
  ~GrammarMatcher();
  GrammarMatcher(GrammarMatcher&&) noexcept;
  GrammarMatcher& operator=(GrammarMatcher&&) noexcept;

  // 32-bit words of a mask: token v is bit v % 32 of word v / 32 (SamplingRow::allowed).
  size_t mask_words() const;
  // The tokens that may come next.  All of them before the grammar starts and behind a stop token; in the free text of
  // tool calls all but those that would open calls and not go on as calls do.  Error:
  // kInvalidArgument when the grammar leaves no token, kResourceExhausted when a mask takes more than a second; the
  // request cannot go on then.
  Status fill_mask(std::span<uint32_t> mask);

  // One more token of the answer.  False: it is not allowed here, nothing has changed (or the matcher has failed:
  // status).
  bool accept(int32_t token);
  // Takes back the last `tokens` accepted tokens.
  void rollback(int tokens);
  int accepted() const;

  // Row 0 of `masks` (rows of mask_words() words, one more than drafts) is the mask here, row i + 1 the one behind
  // drafts[0..i].  Stops at the first draft that is not allowed.  Returns the rows filled; the matcher is where it was.
  Result<int> masks_along(std::span<const int32_t> drafts, std::span<uint32_t> masks);

  // The grammar has started: the trigger is complete, the block of calls open.
  bool started() const;
  // A stop token was accepted where the grammar may end.
  bool is_terminated() const;
  // The grammar may end here.
  bool may_end() const;
  // Why nothing is possible any more, ok otherwise.
  Status status() const;

  // An independent matcher at the same place.
  GrammarMatcher clone() const;

 private:
  struct State;
  explicit GrammarMatcher(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace deepinfer
