#include "grammar/grammar_compiler.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/caught_exception.h"
#include "grammar/compiled_grammar_state.h"
#include "grammar/grammar_job.h"
#include "grammar/spec_key.h"
#include "grammar/work_budget.h"

// See third_party/README.md, change 4.
extern const unsigned long long deepinfer_xgrammar_seed;
const unsigned long long deepinfer_xgrammar_seed = [] {
  std::random_device device;
  return static_cast<unsigned long long>(device()) << 32 | device();
}();

namespace xgrammar {

// The library's fatal messages: what went wrong, as an exception that its caller in src/grammar catches.
void LogFatalImpl(const std::string&, int, const std::string& message) {
  throw std::runtime_error(message);
}
// Its warnings are about inputs that src/grammar has translated or refused already.
void LogMessageImpl(const std::string&, int, int, const std::string&) {}

}  // namespace xgrammar

namespace deepinfer {

using Clock = std::chrono::steady_clock;

namespace {

// Between two looks at what waits to be compiled.
constexpr std::chrono::milliseconds kMasksAtATime{5};

int32_t longest(const std::vector<std::string>& tokens) {
  size_t bytes = 0;
  for (const std::string& token : tokens) bytes = std::max(bytes, token.size());
  return static_cast<int32_t>(bytes);
}

}  // namespace

CompiledGrammar::CompiledGrammar(std::unique_ptr<const State> state) : state_(std::move(state)) {}
CompiledGrammar::~CompiledGrammar() = default;
int64_t CompiledGrammar::bytes() const {
  return state_->bytes + static_cast<int64_t>(state_->grammar.MaskBytes());
}
int32_t CompiledGrammar::vocabulary() const {
  return state_->vocabulary;
}

struct GrammarCompiler::State {
  State(GrammarVocabulary vocabulary, const GrammarCompilerOptions& options)
      : options(options),
        tokens(vocabulary.tokens, xgrammar::VocabType::RAW, std::nullopt, std::vector<int32_t>()),
        longest_token(longest(tokens.GetDecodedVocab())),
        compiler(tokens, 1, true, 3 * options.shared_bytes),  // a third is for what rules share
        masks(options.mask_bytes > 0 ? std::make_shared<MaskMemory>(options.mask_bytes) : nullptr) {}

  struct Cached {
    std::string key;
    SharedGrammar grammar;
    int64_t bytes = 0;
    bool masks_due = false;  // some are missing, and no thread makes them
  };
  // A grammar that lacks masks, and is used.
  struct Unfinished {
    std::string key;
    std::weak_ptr<const CompiledGrammar> grammar;
  };

  void work();
  void compile_next(std::unique_lock<std::mutex>& lock);
  void make_masks(std::unique_lock<std::mutex>& lock);
  std::shared_ptr<const CallOpening> opening(const std::string& text);
  Result<SharedGrammar> build(const GrammarTicket::Job& job);
  Result<SharedGrammar> contained(
      const GrammarTicket::Job& job);  // build(), also where there is no memory for an error
  void remember(const std::string& key, SharedGrammar grammar);
  void charge(std::list<Cached>::iterator place);
  void finish_later(Unfinished grammar);

  const GrammarCompilerOptions options;
  const xgrammar::TokenizerInfo tokens;
  const int32_t longest_token;         // bytes
  xgrammar::GrammarCompiler compiler;  // its one store has its own mutex, so threads share it
  const std::shared_ptr<MaskMemory> masks;
  std::atomic<int64_t> compiled{0};

  mutable std::mutex mutex;
  std::condition_variable more;
  std::atomic<bool> closing{false};
  std::deque<std::shared_ptr<GrammarTicket::Job>> waiting;
  std::map<std::string, std::shared_ptr<GrammarTicket::Job>> running;  // waiting ones too
  std::deque<Unfinished> unfinished;
  std::list<Cached> cache;  // most recently used first
  std::map<std::string, std::list<Cached>::iterator> cached;
  GrammarCacheStats stats;
  std::shared_ptr<const CallOpening> last_opening;  // all requests of a model have the same
  std::vector<std::thread> threads;
};

std::shared_ptr<const CallOpening> GrammarCompiler::State::opening(const std::string& text) {
  {
    std::lock_guard lock(mutex);
    if (last_opening != nullptr && last_opening->text() == text) return last_opening;
  }
  auto made = std::make_shared<const CallOpening>(text, tokens.GetDecodedVocab());
  std::lock_guard lock(mutex);
  last_opening = made;
  return made;
}

namespace {

std::vector<std::vector<int32_t>> false_openers(const xgrammar::CompiledGrammar& grammar, const CallOpening& opening) {
  const std::vector<std::string>& tokens = grammar.GetTokenizerInfo().GetDecodedVocab();
  xgrammar::GrammarMatcher block(grammar);
  std::vector<std::vector<int32_t>> found(opening.text().size());
  for (size_t matched = 0; matched < found.size(); ++matched) {
    for (const int32_t token : opening.openers(matched)) {
      const std::string& text = tokens[static_cast<size_t>(token)];
      const size_t rest = *opening.advance(matched, text).rest;
      if (block.AcceptString(opening.text() + text.substr(rest))) {
        block.Rollback(1);
      } else {
        found[matched].push_back(token);
      }
    }
  }
  return found;
}

}  // namespace

Result<SharedGrammar> GrammarCompiler::State::build(const GrammarTicket::Job& job) {
  const Clock::time_point masks_until = std::min(job.deadline, Clock::now() + options.first_masks);
  WorkLimits limits;
  limits.deadline = job.deadline;
  limits.bytes = options.limits.bytes;
  limits.cancelled = &job.cancelled;
  WorkBudget budget(limits);
  try {
    WorkBudget::check();
    DI_ASSIGN_OR_RETURN(const std::string text, grammar_text(job.spec, options.limits));
    WorkBudget::check();
    auto state = std::make_unique<CompiledGrammar::State>(CompiledGrammar::State{
        compiler.CompileGrammar(text, "root"), 0, 0, 0, longest_token, masks, ++compiled, nullptr, {}});
    // The library's own count takes what rules share once a rule.
    state->bytes = WorkBudget::kept_bytes() + static_cast<int64_t>(text.size());
    state->most_bytes = options.limits.bytes;
    state->vocabulary = static_cast<int32_t>(tokens.GetVocabSize());
    if (job.spec.kind == GrammarSpec::Kind::kToolCalls && !job.spec.markup.begin.empty()) {
      state->opening = opening(job.spec.markup.opening);
      state->false_openers = false_openers(state->grammar, *state->opening);
    }
    while (Clock::now() < masks_until && state->grammar.MakeNextMask()) {
    }
    return std::make_shared<const CompiledGrammar>(std::move(state));
  } catch (const WorkStopped& stopped) {
    switch (stopped.reason()) {
      case WorkStopped::Reason::kTime:
        return Status(StatusCode::kResourceExhausted,
                      fmt::format("grammar: compiling takes longer than {} ms", options.limits.time.count()));
      case WorkStopped::Reason::kBytes:
        return Status(StatusCode::kResourceExhausted,
                      fmt::format("grammar: compiling takes more than {} bytes", options.limits.bytes));
      case WorkStopped::Reason::kCancelled:
        break;
    }
    return Status(StatusCode::kCancelled, "grammar: nobody waits for it any more");
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "grammar: not enough memory to compile it");
  } catch (const std::exception& problem) {
    return invalid_argument(fmt::format("grammar: {}", problem.what()));
  }
}

Result<SharedGrammar> GrammarCompiler::State::contained(const GrammarTicket::Job& job) {
  try {
    return build(job);
  } catch (...) {
    return caught_exception("grammar");
  }
}

void GrammarCompiler::State::remember(const std::string& key, SharedGrammar grammar) {
  if (cached.count(key) > 0) return;
  try {
    std::list<Cached> entry;
    entry.push_back({key, std::move(grammar)});
    cached.emplace(key, entry.begin());
    cache.splice(cache.begin(), entry);
  } catch (const std::bad_alloc&) {
    return;  // the next request compiles it again
  }
  charge(cache.begin());
}

void GrammarCompiler::State::finish_later(Unfinished grammar) {
  try {
    unfinished.push_back(std::move(grammar));
    more.notify_one();
  } catch (const std::bad_alloc&) {  // answers make the masks that they need
  }
}

// Counts a grammar by what it has by now.
void GrammarCompiler::State::charge(std::list<Cached>::iterator place) {
  stats.bytes -= place->bytes;
  place->bytes = place->grammar->bytes() + static_cast<int64_t>(2 * place->key.size() + 512);
  stats.bytes += place->bytes;
  if (place->bytes > options.cache_bytes) {  // rather this one than all others
    stats.bytes -= place->bytes;
    cached.erase(place->key);
    cache.erase(place);
  }
  while (stats.bytes > options.cache_bytes) {
    stats.bytes -= cache.back().bytes;
    cached.erase(cache.back().key);
    cache.pop_back();
  }
  stats.grammars = static_cast<int64_t>(cache.size());
}

void GrammarCompiler::State::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    more.wait(lock, [this] { return closing || !waiting.empty() || !unfinished.empty(); });
    if (closing) return;
    if (!waiting.empty()) {
      compile_next(lock);
    } else {
      make_masks(lock);
    }
  }
}

void GrammarCompiler::State::compile_next(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<GrammarTicket::Job> job = std::move(waiting.front());
  waiting.pop_front();
  lock.unlock();
  Result<SharedGrammar> outcome = contained(*job);
  lock.lock();
  const auto place = running.find(job->key);
  if (place != running.end() && place->second == job) running.erase(place);
  if (outcome.ok()) {
    finish_later({job->key, outcome.value()});
    remember(job->key, outcome.value());
  }
  job->finish(std::move(outcome));
}

// Some of the masks that the first unfinished grammar lacks, while somebody uses it and nothing waits to be compiled.
void GrammarCompiler::State::make_masks(std::unique_lock<std::mutex>& lock) {
  Unfinished next = std::move(unfinished.front());
  unfinished.pop_front();
  SharedGrammar grammar = next.grammar.lock();
  if (grammar == nullptr) return;
  auto known = cached.find(next.key);
  if (known != cached.end() && known->second->grammar != grammar) known = cached.end();
  if (grammar.use_count() <= (known != cached.end() ? 2 : 1)) {
    if (known != cached.end()) known->second->masks_due = true;
    return;
  }
  lock.unlock();
  bool left = true;
  {
    WorkLimits limits;
    limits.bytes = std::max<int64_t>(0, options.limits.bytes - grammar->bytes());
    limits.cancelled = &closing;
    WorkBudget budget(limits);
    const Clock::time_point until = Clock::now() + kMasksAtATime;
    try {
      while (left && Clock::now() < until) left = grammar->state().grammar.MakeNextMask();
    } catch (const std::exception&) {
      left = false;  // what is missing is made, or refused, when an answer needs it
    }
  }
  lock.lock();
  if (left) {
    finish_later(std::move(next));
  } else if (const auto place = cached.find(next.key); place != cached.end() && place->second->grammar == grammar) {
    charge(place->second);
  }
}

Result<std::unique_ptr<GrammarCompiler>> GrammarCompiler::create(GrammarVocabulary vocabulary,
                                                                 const GrammarCompilerOptions& options) {
  if (vocabulary.tokens.empty()) return invalid_argument("grammar: the vocabulary is empty");
  if (options.threads < 1)
    return invalid_argument(fmt::format("grammar: threads is {}, at least 1 is needed", options.threads));
  try {
    auto state = std::make_unique<State>(std::move(vocabulary), options);
    State& s = *state;
    std::unique_ptr<GrammarCompiler> compiler(new GrammarCompiler(std::move(state)));  // ends its threads
    s.threads.reserve(static_cast<size_t>(options.threads));
    for (int i = 0; i < options.threads; ++i) s.threads.emplace_back([&s] { s.work(); });
    return compiler;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "grammar: not enough memory for the vocabulary");
  }
}

GrammarCompiler::GrammarCompiler(std::unique_ptr<State> state) : state_(std::move(state)) {}

GrammarCompiler::~GrammarCompiler() {
  std::map<std::string, std::shared_ptr<GrammarTicket::Job>> unfinished;
  {
    std::lock_guard lock(state_->mutex);
    state_->closing = true;
    unfinished.swap(state_->running);
    for (auto& [key, job] : unfinished) job->cancelled = true;
  }
  state_->more.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
  for (auto& [key, job] : unfinished) {
    bool finished = false;
    {
      std::lock_guard lock(job->mutex);
      finished = job->finished;
    }
    if (!finished) job->finish(Status(StatusCode::kCancelled, "grammar: the engine is closing"));
  }
}

GrammarTicket GrammarCompiler::compile(const GrammarSpec& spec) {
  std::string key = spec_key(spec);
  std::lock_guard lock(state_->mutex);
  const auto finished_ticket = [](Result<SharedGrammar> outcome) {
    auto job = std::make_shared<GrammarTicket::Job>();
    job->tickets = 1;
    job->finish(std::move(outcome));
    return GrammarTicket(std::move(job));
  };
  if (const auto known = state_->cached.find(key); known != state_->cached.end()) {
    ++state_->stats.hits;
    state_->cache.splice(state_->cache.begin(), state_->cache, known->second);
    if (std::exchange(known->second->masks_due, false)) {
      state_->finish_later({key, known->second->grammar});
    }
    return finished_ticket(known->second->grammar);
  }
  ++state_->stats.misses;
  if (const auto other = state_->running.find(key); other != state_->running.end() && other->second->join())
    return GrammarTicket(other->second);
  if (state_->waiting.size() >= state_->options.waiting)
    return finished_ticket(Status(StatusCode::kResourceExhausted,
                                  fmt::format("grammar: {} compilations wait already", state_->waiting.size())));
  auto job = std::make_shared<GrammarTicket::Job>();
  job->key = std::move(key);
  job->spec = spec;
  job->deadline = Clock::now() + state_->options.limits.time;
  job->tickets = 1;
  state_->waiting.push_back(job);
  try {
    state_->running[job->key] = job;
  } catch (...) {
    state_->waiting.pop_back();
    throw;
  }
  state_->more.notify_one();
  return GrammarTicket(std::move(job));
}

GrammarCacheStats GrammarCompiler::cache_stats() const {
  GrammarCacheStats stats;
  {
    std::lock_guard lock(state_->mutex);
    stats = state_->stats;
  }
  if (state_->masks != nullptr) {
    const MaskMemory::Stats masks = state_->masks->stats();
    stats.mask_hits = masks.hits;
    stats.mask_misses = masks.misses;
    stats.mask_bytes = masks.bytes;
  }
  return stats;
}

}  // namespace deepinfer
