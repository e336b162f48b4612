// GrammarCompiler: turns a GrammarSpec into a CompiledGrammar, on its own threads, within budgets, with a memory of
// what it compiled before.  One for each vocabulary, owned by the engine; every method may be called from any thread
// and none blocks but GrammarTicket::wait.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "grammar/grammar_spec.h"

namespace deepinfer {

// What each token stands for, in bytes; empty for tokens that no grammar may produce (control tokens, padding).
struct GrammarVocabulary {
  std::vector<std::string> tokens;  // [width of the logits]
};

struct GrammarLimits {
  size_t text_bytes = 256 * 1024;          // of a schema or of EBNF text; an expression has 16 kB
  int depth = 64;                          // of JSON and of groups in EBNF text
  int64_t terms = 400'000;                 // of the grammar that a text is translated into
  std::chrono::milliseconds time{20'000};  // from the request on, waiting included
  int64_t bytes = int64_t{1} << 30;        // of one compiled grammar, about
};

struct GrammarCompilerOptions {
  int threads = 2;
  size_t waiting = 1024;                      // compilations that may wait; more are refused
  int64_t cache_bytes = int64_t{512} << 20;   // least recently used grammars go first; never on disk
  int64_t shared_bytes = int64_t{256} << 20;  // of masks that grammars with equal rules share, besides
  int64_t mask_bytes = int64_t{64} << 20;     // of masks of states that answers have been in, besides; 0: none is kept
  // A compilation ends when it has all masks, or after this time; the others are made while answers are under way, by
  // threads that have nothing to compile, or by the answer that comes to a state first.  What they are never changes.
  std::chrono::milliseconds first_masks{80};
  GrammarLimits limits;
};

// A grammar ready for GrammarMatcher.  Immutable, shared by all requests that ask for it.
class CompiledGrammar {
 public:
  struct State;
  explicit CompiledGrammar(std::unique_ptr<const State> state);
  ~CompiledGrammar();
  const State& state() const { return *state_; }
  int64_t bytes() const;  // grows while masks are made
  int32_t vocabulary() const;

 private:
  std::unique_ptr<const State> state_;
};

using SharedGrammar = std::shared_ptr<const CompiledGrammar>;

// One caller's interest in a compilation.  When the last ticket of a compilation is gone, it is cancelled.
class GrammarTicket {
 public:
  struct Job;
  GrammarTicket() = default;
  explicit GrammarTicket(std::shared_ptr<Job> job);
  ~GrammarTicket();
  GrammarTicket(GrammarTicket&& other) noexcept = default;
  GrammarTicket& operator=(GrammarTicket&& other) noexcept;

  bool ready() const;
  // What came of it; kInternal before it is ready.  Errors: kInvalidArgument and kUnsupported with the place of the
  // fault where one is known, kResourceExhausted naming the budget.
  Result<SharedGrammar> result() const;
  Result<SharedGrammar> wait() const;

 private:
  void leave();
  std::shared_ptr<Job> job_;
};

struct GrammarCacheStats {
  int64_t hits = 0;
  int64_t misses = 0;
  int64_t grammars = 0;
  int64_t bytes = 0;
  int64_t mask_hits = 0;
  int64_t mask_misses = 0;
  int64_t mask_bytes = 0;
};

class GrammarCompiler {
 public:
  // Error: kInvalidArgument for an empty vocabulary.
  static Result<std::unique_ptr<GrammarCompiler>> create(GrammarVocabulary vocabulary,
                                                         const GrammarCompilerOptions& options = {});
  ~GrammarCompiler();
  GrammarCompiler(const GrammarCompiler&) = delete;
  GrammarCompiler& operator=(const GrammarCompiler&) = delete;

  // A grammar that is known already, or equal to one that is being compiled, costs nothing again.
  GrammarTicket compile(const GrammarSpec& spec);
  GrammarCacheStats cache_stats() const;

 private:
  struct State;
  explicit GrammarCompiler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The EBNF text that a spec is translated into, for tests and for people.  Pure; time is linear in the result.
Result<std::string> grammar_text(const GrammarSpec& spec, const GrammarLimits& limits = {});

}  // namespace deepinfer
