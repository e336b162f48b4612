#include "engine/generator.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/out_of_memory.h"
#include "engine/cached_sequence.h"
#include "engine/model_grammar.h"
#include "engine/model_tokens.h"
#include "engine/request_check.h"
#include "engine/speculation/draft_length.h"
#include "engine/token_chooser.h"
#include "models/model.h"
#include "models/open_model.h"

namespace deepinfer {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One call of generate(): what has been decided and what ends it.
struct Generation {
  const GenerationParams& params;
  FunctionRef<Taken(std::span<const GeneratedToken>)> on_tokens;
  TokenChooser chooser;
  GenerationResult result;
  std::vector<GeneratedToken> decided;  // of the step under way
  int64_t most_tokens = 0;
  int drafts = 0;  // a round
  bool ended = false;

  int64_t left() const { return most_tokens - static_cast<int64_t>(result.tokens.size()); }

  // Takes a chosen token; sets ended where it is the last.
  void take(GeneratedToken token) {
    chooser.count(token.token);
    const auto& stops = params.stop_tokens;
    const bool stop = std::find(stops.begin(), stops.end(), token.token) != stops.end();
    result.tokens.push_back(token);
    decided.push_back(std::move(token));
    if (stop || left() == 0) {
      ended = true;
      result.finish = stop ? FinishReason::kStop : FinishReason::kLength;
    }
  }
  // Hands the decided tokens on and forgets those that the consumer did not take.  Returns the number taken.
  int64_t deliver() {
    const Taken taken = on_tokens(decided);
    const size_t left_over = decided.size() - std::min(taken.tokens, decided.size());
    DI_CHECK(taken.tokens == Taken::kAll || taken.tokens <= decided.size(), "no more tokens are taken than given");
    if (left_over > 0 || (!taken.more && !ended)) result.finish = FinishReason::kStop;
    if (left_over > 0 || !taken.more) ended = true;
    result.tokens.erase(result.tokens.end() - static_cast<std::ptrdiff_t>(left_over), result.tokens.end());
    const auto count = static_cast<int64_t>(decided.size() - left_over);
    decided.clear();
    return count;
  }
};

class SequenceGenerator final : public Generator {
 public:
  SequenceGenerator(const GeneratorOptions& options, std::unique_ptr<Ops> ops, std::unique_ptr<Model> model,
                    CachedSequence sequence)
      : options_(options), ops_(std::move(ops)), model_(std::move(model)), sequence_(std::move(sequence)) {}

  Result<GenerationResult> generate(std::span<const int32_t> prompt, const GenerationParams& params,
                                    const GrammarSpec* grammar,
                                    FunctionRef<Taken(std::span<const GeneratedToken>)> on_tokens) override;
  void cancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  int32_t vocabulary() const override { return model_->info().vocabulary; }
  int64_t max_context() const override { return options_.max_context; }
  std::string_view backend_name() const override { return ops_->name(); }

 private:
  Result<GenerationResult> run(std::span<const int32_t> prompt, const GenerationParams& params, int64_t most_tokens,
                               std::optional<GrammarMatcher> grammar,
                               FunctionRef<Taken(std::span<const GeneratedToken>)> on_tokens);
  Result<GrammarMatcher> matcher(const GrammarSpec& grammar, const GenerationParams& params);
  RowRule row_rule(int64_t prompt_tokens) const;
  // Processes the prompt and chooses the first token.
  Status prefill(std::span<const int32_t> prompt, Generation& generation);
  // One round: drafts, a step over the last token and them, and the choices that the drafts did not miss.
  Status decode(Generation& generation);
  // Draws drafts for a proposal, or appends those to round_ that are to be verified.
  void draft(Generation& generation, int drafts);
  bool stop_if_cancelled(Generation& generation) const;

  GeneratorOptions options_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;  // refers to ops_
  CachedSequence sequence_;
  DraftLength draft_length_;
  std::vector<int32_t> round_;                         // the last token and the drafts that follow it
  std::unique_ptr<GrammarCompiler> grammar_compiler_;  // once a grammar has been asked for
  std::atomic<bool> cancelled_{false};
};

RowRule SequenceGenerator::row_rule(int64_t prompt_tokens) const {
  switch (options_.prefill) {
    case PrefillMode::kExact:
      return {RowRule::Kind::kExact, prompt_tokens - 1};
    case PrefillMode::kFull:
      return {RowRule::Kind::kEveryRow, 0};
    case PrefillMode::kBoundedReplay:
      return {RowRule::Kind::kBoundedReplay, std::max<int64_t>(0, prompt_tokens - options_.replay_tokens)};
  }
  return {};
}

bool SequenceGenerator::stop_if_cancelled(Generation& generation) const {
  if (!cancelled_.load(std::memory_order_relaxed)) return false;
  generation.ended = true;
  generation.result.finish = FinishReason::kCancelled;
  return true;
}

Result<GrammarMatcher> SequenceGenerator::matcher(const GrammarSpec& grammar, const GenerationParams& params) {
  if (grammar_compiler_ == nullptr) {
    DI_ASSIGN_OR_RETURN(grammar_compiler_, make_grammar_compiler(options_.model, vocabulary()));
  }
  DI_ASSIGN_OR_RETURN(SharedGrammar compiled, grammar_compiler_->compile(grammar).wait());
  return GrammarMatcher::create(std::move(compiled), grammar, params.stop_tokens);
}

Result<GenerationResult> SequenceGenerator::generate(std::span<const int32_t> prompt, const GenerationParams& params,
                                                     const GrammarSpec* grammar,
                                                     FunctionRef<Taken(std::span<const GeneratedToken>)> on_tokens) {
  cancelled_.store(false, std::memory_order_relaxed);
  DI_RETURN_IF_ERROR(check_request(prompt, params, model_->info(), max_context()));
  const int64_t room = max_context() - static_cast<int64_t>(prompt.size());
  const int64_t most_tokens = params.max_tokens == 0 ? room : std::min(params.max_tokens, room);
  return or_out_of_memory(
      [&] { return fmt::format("a prompt of {} tokens and an answer of up to {}", prompt.size(), most_tokens); },
      [&]() -> Result<GenerationResult> {
        std::optional<GrammarMatcher> held;
        if (grammar != nullptr) {
          DI_ASSIGN_OR_RETURN(held, matcher(*grammar, params));
        }
        return run(prompt, params, most_tokens, std::move(held), on_tokens);
      });
}

Result<GenerationResult> SequenceGenerator::run(std::span<const int32_t> prompt, const GenerationParams& params,
                                                int64_t most_tokens, std::optional<GrammarMatcher> grammar,
                                                FunctionRef<Taken(std::span<const GeneratedToken>)> on_tokens) {
  Generation generation{
      params, on_tokens, TokenChooser(params, prompt, most_tokens, vocabulary(), *ops_, std::move(grammar)),
      {},     {},        most_tokens,
      0,      false};
  generation.drafts = params.draft_tokens < 0 ? model_->info().draft_tokens : params.draft_tokens;
  generation.chooser.test_drafts(generation.drafts);
  generation.result.marks = {
      generation.chooser.tests_drafts(),
      options_.prefill == PrefillMode::kBoundedReplay && static_cast<int64_t>(prompt.size()) > options_.replay_tokens};
  generation.result.prompt_tokens = static_cast<int64_t>(prompt.size());
  generation.result.tokens.reserve(static_cast<size_t>(most_tokens));
  generation.decided.reserve(static_cast<size_t>(generation.drafts) + 1);
  round_.reserve(static_cast<size_t>(generation.drafts) + 1);

  const auto start = Clock::now();
  DI_RETURN_IF_ERROR(prefill(prompt, generation));
  generation.result.prefill_seconds = seconds_since(start);
  const auto decode_start = Clock::now();
  while (!generation.ended && !stop_if_cancelled(generation)) DI_RETURN_IF_ERROR(decode(generation));
  generation.result.decode_seconds = seconds_since(decode_start);
  return std::move(generation.result);
}

Status SequenceGenerator::prefill(std::span<const int32_t> prompt, Generation& generation) {
  const auto tokens = static_cast<int64_t>(prompt.size());
  int64_t position =
      sequence_.begin(*model_, prompt, row_rule(tokens), /*whole_draft_context=*/generation.chooser.tests_drafts());
  generation.result.reused_tokens = position;
  MatrixView<float> logits;
  while (position < tokens) {
    if (stop_if_cancelled(generation)) return {};
    const int64_t rows = std::min(options_.prefill_chunk, tokens - position);
    const StepSequence step = sequence_.append(prompt.subspan(static_cast<size_t>(position), static_cast<size_t>(rows)),
                                               tokens - 1, generation.drafts > 0);
    logits = model_->forward({&step, 1});
    sequence_.commit(rows);
    position += rows;
  }
  DI_ASSIGN_OR_RETURN(GeneratedToken token, generation.chooser.choose(logits, tokens));
  generation.take(std::move(token));
  generation.deliver();
  return {};
}

void SequenceGenerator::draft(Generation& generation, int drafts) {
  DraftSequence request;
  request.cache = sequence_.cache();
  request.token = round_[0];
  request.position = sequence_.processed();
  request.context_from = sequence_.draft_context_from();
  request.drafts = drafts;
  request.sampling = generation.chooser.draft_sampling();
  const DraftResult proposed = model_->draft({&request, 1});
  const int32_t* tokens = proposed.tokens.row(0);
  int drawn = 0;
  while (drawn < drafts && tokens[drawn] >= 0) ++drawn;
  if (generation.chooser.tests_drafts()) {
    generation.chooser.proposal().begin({tokens, static_cast<size_t>(drawn)}, proposed.logits.rows_from(0, drawn),
                                        ops_->memory());
    return;
  }
  if (generation.params.draft_tokens < 0)
    drawn = draft_length_.choose({proposed.confidence.row(0), static_cast<size_t>(drawn)});
  round_.insert(round_.end(), tokens, tokens + drawn);
}

Status SequenceGenerator::decode(Generation& generation) {
  round_.assign(1, generation.result.tokens.back().token);
  // A round decides one token more than it has drafts.
  auto drafts = static_cast<int>(std::min<int64_t>(generation.drafts, generation.left() - 1));
  const bool tested = generation.chooser.tests_drafts();
  if (generation.params.draft_tokens < 0 && !tested) drafts = draft_length_.next(drafts);
  const auto start = Clock::now();
  if (tested) {
    if (!generation.chooser.proposal().open()) draft(generation, generation.drafts);
    const auto waiting = generation.chooser.proposal().drafts();
    round_.insert(round_.end(), waiting.begin(), waiting.begin() + std::min<int64_t>(drafts, std::ssize(waiting)));
  } else if (drafts > 0) {
    draft(generation, drafts);
  }
  const auto drafted = Clock::now();
  const int64_t position = sequence_.processed();
  const StepSequence step = sequence_.append(round_, position, generation.drafts > 0);
  const MatrixView<float> logits = model_->forward({&step, 1});

  // Row i chooses the token after it.  It is what plain decoding would choose as long as the rows before it held the
  // tokens that were chosen.
  int64_t right = 0;  // rows that hold a decided token
  int accepted = 0;   // drafts
  bool missed = false;
  Status failure;
  while (right < step.rows && !generation.ended) {
    auto token = generation.chooser.choose(logits.rows_from(right, 1), position + right + 1);
    ++right;
    if (!token.ok()) {
      failure = token.status();
      break;
    }
    const int32_t chosen = token->token;
    generation.take(std::move(token).value());
    missed = right < step.rows && round_[static_cast<size_t>(right)] != chosen;
    if (right == step.rows || missed) break;
    ++accepted;
  }
  // What was decided before a failure is delivered first, as without drafts; where the consumer stops, the failure lies
  // behind the answer.
  const int64_t taken = generation.decided.empty() ? 0 : generation.deliver();
  // Row 0 holds the last token of before, row i the i-th one decided here: rows stay as far as their tokens were taken.
  // A draft equal to the last token of an ended answer was never needed as a row.
  sequence_.commit(std::min(right, taken + 1));
  if (!failure.ok() && !generation.ended) return failure;
  ++generation.result.rounds;
  generation.result.drafted += step.rows - 1;
  generation.result.accepted += accepted;
  // Drafts behind the end of an answer are neither right nor wrong.
  const auto verified = static_cast<int>(step.rows - 1);
  if (!tested)
    draft_length_.record(verified, drafted - start, Clock::now() - drafted, missed ? verified : accepted, accepted);
  return {};
}

Status check_options(const GeneratorOptions& options) {
  if (options.prefill_chunk < 0 || options.prefill_chunk > (int64_t{1} << 20))
    return invalid_argument(fmt::format("prefill_chunk is {}; allowed: 0 to {}", options.prefill_chunk, 1 << 20));
  if (options.max_context < 0)
    return invalid_argument(
        fmt::format("max_context is {}; allowed: 0 (the model's own) or more", options.max_context));
  return {};
}

Status check_replay(const GeneratorOptions& options, const ModelInfo& info) {
  if (options.prefill != PrefillMode::kBoundedReplay) return {};
  if (info.min_replay_tokens == 0) return unsupported("bounded replay: this model's layers do not allow it");
  if (options.replay_tokens < info.min_replay_tokens)
    return invalid_argument(fmt::format("replay_tokens is {}; allowed: {} or more (window and drafts)",
                                        options.replay_tokens, info.min_replay_tokens));
  return {};
}

Result<std::unique_ptr<Generator>> open_generator(const GeneratorOptions& options, std::unique_ptr<Ops> ops) {
  DI_RETURN_IF_ERROR(check_options(options));
  GeneratorOptions resolved = options;
  if (resolved.prefill_chunk == 0) resolved.prefill_chunk = default_prefill_chunk(options.model);
  ModelOptions wanted;
  wanted.folder = options.model;
  wanted.placement = options.placement;
  wanted.limits.rows = resolved.prefill_chunk;
  wanted.limits.max_context = options.max_context;
  wanted.tokens = [folder = options.model] { return load_model_tokens(folder); };
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, open_model(wanted, *ops));
  if (resolved.max_context == 0) resolved.max_context = model->info().max_context;
  DI_RETURN_IF_ERROR(check_replay(resolved, model->info()));
  DI_ASSIGN_OR_RETURN(CachedSequence sequence, CachedSequence::create(*model, resolved.max_context, ops->memory()));
  return std::unique_ptr<Generator>(
      std::make_unique<SequenceGenerator>(resolved, std::move(ops), std::move(model), std::move(sequence)));
}

}  // namespace

int64_t default_prefill_chunk(const std::filesystem::path& model) {
  constexpr uintmax_t kLargeModel = uintmax_t{1} << 30;  // bytes: more than most caches hold
  uintmax_t bytes = 0;
  // std::filesystem ends the process where memory for its iterator is short.
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(model.c_str()), ::closedir);
  while (const dirent* file = folder == nullptr ? nullptr : ::readdir(folder.get())) {
    struct stat found {};
    if (::fstatat(::dirfd(folder.get()), file->d_name, &found, 0) == 0 && S_ISREG(found.st_mode))
      bytes += static_cast<uintmax_t>(found.st_size);
  }
  return bytes < kLargeModel ? kSmallModelPrefillChunk : kPrefillChunk;
}

Result<std::unique_ptr<Generator>> Generator::open(const GeneratorOptions& options, std::unique_ptr<Ops> ops) {
  DI_CHECK(ops != nullptr, "a generator needs a backend");
  return or_out_of_memory([&] { return fmt::format("a generator of the model in {}", options.model.string()); },
                          [&] { return open_generator(options, std::move(ops)); });
}

}  // namespace deepinfer
