#include "grammar/grammar_matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "grammar/compiled_grammar_state.h"
#include "grammar/trigger_pattern.h"
#include "grammar/work_budget.h"

namespace deepinfer {
namespace {

constexpr std::chrono::seconds kMostTimeOfOneCall{1};
constexpr std::chrono::seconds kMostTimeOfNewMasks{2};  // that no thread of the compiler has made yet
constexpr size_t kMostKey = 4096;                       // numbers; a state that takes more is hardly met again

enum class Phase : uint8_t {
  kFree,       // the trigger is awaited
  kForced,     // the bound token came: the rest of the trigger is the only way
  kReasoning,  // free text in which calls may be opened, to the token that ends it
  kText,       // the same as the answer's content
  kGrammar,
  kEnded,  // a stop token was accepted
};

// Where the matcher stood before a token.
struct Place {
  Phase phase = Phase::kGrammar;
  size_t matched = 0;   // tokens of the trigger, or bytes of what opens calls
  bool parsed = false;  // the token before moved the parser
};

// Behind trigger and reasoning.
Phase content_phase(const GrammarSpec& spec) {
  if (spec.kind != GrammarSpec::Kind::kToolCalls) return Phase::kGrammar;
  return spec.call_required || spec.content != GrammarSpec::Content::kFree ? Phase::kGrammar : Phase::kText;
}

}  // namespace

struct GrammarMatcher::State {
  SharedGrammar grammar;
  TriggerPattern trigger;
  std::optional<int32_t> bound;
  Phase first = Phase::kGrammar;  // behind the trigger
  std::optional<int32_t> reasoning_end;
  Phase behind_reasoning = Phase::kGrammar;
  bool call_required = false;
  std::vector<int32_t> stops;
  xgrammar::GrammarMatcher parser;
  Place place;
  std::vector<Place> history;
  Status failure;
  std::vector<int32_t> key;  // of the parser's state, and then the grammar's number

  bool is_stop(int32_t token) const { return std::find(stops.begin(), stops.end(), token) != stops.end(); }
  size_t words() const { return (static_cast<size_t>(grammar->vocabulary()) + 31) / 32; }

  // Runs `work` on the parser; what it throws becomes `failure`.
  template <typename Work>
  bool guarded(Work&& work, std::chrono::seconds most_time = kMostTimeOfOneCall) {
    WorkLimits limits;
    limits.deadline = std::chrono::steady_clock::now() + most_time;
    limits.bytes = std::max<int64_t>(0, grammar->state().most_bytes - grammar->bytes());
    WorkBudget budget(limits);
    try {
      return work();
    } catch (const WorkStopped& stopped) {
      failure = Status(StatusCode::kResourceExhausted,
                       stopped.reason() == WorkStopped::Reason::kBytes
                           ? fmt::format("grammar: its masks take more than {} bytes", grammar->state().most_bytes)
                           : fmt::format("grammar: one token's mask takes longer than {} s", most_time.count()));
    } catch (const std::bad_alloc&) {
      failure = Status(StatusCode::kResourceExhausted, "grammar: not enough memory for a mask");
    } catch (const std::exception& problem) {
      failure = Status(StatusCode::kInternal, fmt::format("grammar: {}", problem.what()));
    }
    return false;
  }

  bool in_text() const { return place.phase == Phase::kReasoning || place.phase == Phase::kText; }
  const std::string& bytes_of(int32_t token) const {
    return grammar->state().grammar.GetTokenizerInfo().GetDecodedVocab()[static_cast<size_t>(token)];
  }

  void allow_all(std::span<uint32_t> mask) const;
  void text_mask(std::span<uint32_t> mask) const;
  Status grammar_mask(std::span<uint32_t> mask);
  // The place behind a token of free text; none: it is not allowed.
  std::optional<Place> behind_text(int32_t token);
};

// In free text everything goes but what would open calls and not go on as calls do.
void GrammarMatcher::State::text_mask(std::span<uint32_t> mask) const {
  allow_all(mask);
  const auto forbid = [&](int32_t token) { mask[static_cast<size_t>(token / 32)] &= ~(1u << (token % 32)); };
  for (const int32_t token : grammar->state().false_openers[place.matched]) forbid(token);
  if (!call_required) return;
  for (const int32_t stop : stops) forbid(stop);
}

std::optional<Place> GrammarMatcher::State::behind_text(int32_t token) {
  if (is_stop(token)) {
    if (call_required) return {};
    return Place{Phase::kEnded};
  }
  if (place.phase == Phase::kReasoning && token == reasoning_end) return Place{behind_reasoning};
  const CallOpening& opening = *grammar->state().opening;
  const std::string& text = bytes_of(token);
  const CallOpening::Step step = opening.advance(place.matched, text);
  if (!step.rest) return Place{place.phase, step.matched};
  if (!guarded([&] { return parser.AcceptString(opening.text() + text.substr(*step.rest)); })) return {};
  return Place{Phase::kGrammar, 0, true};
}

void GrammarMatcher::State::allow_all(std::span<uint32_t> mask) const {
  std::fill(mask.begin(), mask.end(), ~0u);
  if (const int32_t rest = grammar->vocabulary() % 32; rest != 0) mask.back() = (1u << rest) - 1;
}

Status GrammarMatcher::State::grammar_mask(std::span<uint32_t> mask) {
  int64_t shape[1] = {static_cast<int64_t>(mask.size())};
  int64_t strides[1] = {1};
  DLTensor tensor{};
  tensor.data = mask.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = xgrammar::GetBitmaskDLType();
  tensor.shape = shape;
  tensor.strides = strides;
  MaskMemory* const masks = grammar->state().masks.get();
  bool has_key = false, known = false;
  const auto look = [&] {
    has_key = masks != nullptr && parser.StateKey(&key, kMostKey, grammar->state().longest_token);
    if (has_key) {
      const auto number = static_cast<uint64_t>(grammar->state().number);
      key.insert(key.end(), {static_cast<int32_t>(number & 0xFFFFFFFF), static_cast<int32_t>(number >> 32)});
      known = masks->find(key, mask);
    }
    return true;
  };
  const auto make = [&] {
    parser.MakeMasks();
    return true;
  };
  const auto fill = [&] {
    parser.FillNextTokenBitmask(&tensor);
    if (has_key) masks->keep(key, mask);
    return true;
  };
  if (!guarded(look)) return failure;
  if (!known && (!guarded(make, kMostTimeOfNewMasks) || !guarded(fill))) return failure;
  if (const int32_t rest = grammar->vocabulary() % 32; rest != 0) mask.back() &= (1u << rest) - 1;
  const bool may_end = parser.IsCompleted();
  for (const int32_t stop : stops) {
    const uint32_t bit = 1u << (stop % 32);
    uint32_t& word = mask[static_cast<size_t>(stop / 32)];
    word = may_end ? word | bit : word & ~bit;
  }
  if (std::all_of(mask.begin(), mask.end(), [](uint32_t word) { return word == 0; })) {
    failure = invalid_argument("grammar: no token of the vocabulary continues the output");
    return failure;
  }
  return {};
}

Result<GrammarMatcher> GrammarMatcher::create(SharedGrammar grammar, const GrammarSpec& spec,
                                              std::span<const int32_t> stop_tokens) {
  DI_CHECK(grammar != nullptr, "a compiled grammar");
  const auto check = [&](int32_t token, std::string_view what) -> Status {
    if (token >= 0 && token < grammar->vocabulary()) return {};
    return invalid_argument(
        fmt::format("grammar: {} {} is not in the vocabulary of {} tokens", what, token, grammar->vocabulary()));
  };
  for (const int32_t token : spec.trigger_token_ids) DI_RETURN_IF_ERROR(check(token, "trigger token"));
  if (spec.bound_token_id) DI_RETURN_IF_ERROR(check(*spec.bound_token_id, "bound token"));
  for (const int32_t token : stop_tokens) DI_RETURN_IF_ERROR(check(token, "stop token"));
  if (spec.bound_token_id && spec.trigger_token_ids.empty())
    return invalid_argument("grammar: bound_token_id needs trigger_token_ids");
  if (spec.reasoning_end) {
    DI_RETURN_IF_ERROR(check(*spec.reasoning_end, "the token that ends reasoning,"));
    if (spec.kind != GrammarSpec::Kind::kToolCalls || spec.markup.begin.empty())
      return invalid_argument("grammar: reasoning_end needs tool calls, and a block that the prompt has not opened");
  }
  const Phase content = content_phase(spec);
  const Phase first = spec.reasoning_end ? Phase::kReasoning : content;
  try {
    const xgrammar::CompiledGrammar& compiled = grammar->state().grammar;
    auto state = std::unique_ptr<State>(new State{grammar,
                                                  TriggerPattern(spec.trigger_token_ids),
                                                  spec.bound_token_id,
                                                  first,
                                                  spec.reasoning_end,
                                                  content,
                                                  spec.call_required,
                                                  std::vector<int32_t>(stop_tokens.begin(), stop_tokens.end()),
                                                  xgrammar::GrammarMatcher(compiled),
                                                  {},
                                                  {},
                                                  {},
                                                  {}});
    state->place.phase = state->trigger.size() > 0 ? Phase::kFree : first;
    return GrammarMatcher(std::move(state));
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "grammar: not enough memory for a matcher");
  } catch (const std::exception& problem) {
    return Status(StatusCode::kInternal, fmt::format("grammar: {}", problem.what()));
  }
}

GrammarMatcher::GrammarMatcher(std::unique_ptr<State> state) : state_(std::move(state)) {}
GrammarMatcher::~GrammarMatcher() = default;
GrammarMatcher::GrammarMatcher(GrammarMatcher&&) noexcept = default;
GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher&&) noexcept = default;

size_t GrammarMatcher::mask_words() const {
  return state_->words();
}

Status GrammarMatcher::fill_mask(std::span<uint32_t> mask) {
  DI_CHECK(mask.size() == mask_words(), "a mask has mask_words() words");
  if (!state_->failure.ok()) return state_->failure;
  switch (state_->place.phase) {
    case Phase::kFree:
    case Phase::kEnded:
      state_->allow_all(mask);
      return {};
    case Phase::kForced: {
      std::fill(mask.begin(), mask.end(), 0u);
      const int32_t token = state_->trigger.token(state_->place.matched);
      mask[static_cast<size_t>(token / 32)] |= 1u << (token % 32);
      return {};
    }
    case Phase::kReasoning:
    case Phase::kText:
      state_->text_mask(mask);
      return {};
    case Phase::kGrammar:
      break;
  }
  return state_->grammar_mask(mask);
}

bool GrammarMatcher::accept(int32_t token) {
  State& state = *state_;
  if (!state.failure.ok() || token < 0 || token >= state.grammar->vocabulary()) return false;
  Place next{state.place.phase, state.place.matched};
  switch (state.place.phase) {
    case Phase::kFree:
      next.matched = state.trigger.advance(state.place.matched, token);
      if (next.matched == state.trigger.size()) {
        next = Place{state.first};
      } else if (state.bound == token) {
        next.phase = Phase::kForced;
      }
      break;
    case Phase::kForced:
      if (token != state.trigger.token(state.place.matched)) return false;
      if (++next.matched == state.trigger.size()) next = Place{state.first};
      break;
    case Phase::kReasoning:
    case Phase::kText: {
      const std::optional<Place> behind = state.behind_text(token);
      if (!behind) return false;
      next = *behind;
      break;
    }
    case Phase::kGrammar:
      if (state.is_stop(token)) {
        if (!state.parser.IsCompleted()) return false;
        next.phase = Phase::kEnded;
      } else if (state.guarded([&] { return state.parser.AcceptToken(token); })) {
        next.parsed = true;
      } else {
        return false;
      }
      break;
    case Phase::kEnded:
      break;
  }
  state.history.push_back(state.place);
  state.place = next;
  return true;
}

void GrammarMatcher::rollback(int tokens) {
  State& state = *state_;
  DI_CHECK(tokens >= 0 && tokens <= accepted(), "only accepted tokens can be taken back");
  int parsed = 0;  // of these tokens, those that moved the parser
  for (int i = 0; i < tokens; ++i) {
    if (state.place.parsed) ++parsed;
    state.place = state.history.back();
    state.history.pop_back();
  }
  if (parsed > 0) state.parser.Rollback(parsed);
}

int GrammarMatcher::accepted() const {
  return static_cast<int>(state_->history.size());
}

Result<int> GrammarMatcher::masks_along(std::span<const int32_t> drafts, std::span<uint32_t> masks) {
  const size_t words = mask_words();
  DI_CHECK(masks.size() == words * (drafts.size() + 1), "one mask a draft and one more");
  int rows = 0, taken = 0;
  Status failed;
  for (;;) {
    failed = fill_mask(masks.subspan(static_cast<size_t>(rows) * words, words));
    if (!failed.ok()) break;
    ++rows;
    if (static_cast<size_t>(taken) == drafts.size() || !accept(drafts[static_cast<size_t>(taken)])) break;
    ++taken;
  }
  // A dead end behind drafts is the drafts' fault: the rows before it stand, and the matcher goes on.
  if (!failed.ok() && taken > 0 && failed.code() == StatusCode::kInvalidArgument) {
    state_->failure = {};
    failed = {};
  }
  if (!state_->failure.ok()) return state_->failure;
  rollback(taken);
  return rows;
}

bool GrammarMatcher::started() const {
  return state_->place.phase == Phase::kGrammar || state_->place.phase == Phase::kEnded;
}
bool GrammarMatcher::is_terminated() const {
  return state_->place.phase == Phase::kEnded;
}
bool GrammarMatcher::may_end() const {
  if (!state_->failure.ok()) return false;
  if (state_->in_text()) return !state_->call_required;
  return state_->place.phase == Phase::kGrammar && state_->parser.IsCompleted();
}
Status GrammarMatcher::status() const {
  return state_->failure;
}

GrammarMatcher GrammarMatcher::clone() const {
  const State& from = *state_;
  return GrammarMatcher(std::unique_ptr<State>(new State{from.grammar,
                                                         from.trigger,
                                                         from.bound,
                                                         from.first,
                                                         from.reasoning_end,
                                                         from.behind_reasoning,
                                                         from.call_required,
                                                         from.stops,
                                                         from.parser.Fork(),
                                                         from.place,
                                                         from.history,
                                                         from.failure,
                                                         {}}));
}

}  // namespace deepinfer
