#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "serving/requests/completion_answer.h"
#include "serving/requests/request_preparation.h"

namespace deepinfer::serving {
namespace {

constexpr std::string_view kBegin = "<｜begin▁of▁sentence｜>";
// Around what stands before and behind a text that is to be filled in.
constexpr std::string_view kFillBegin = "<｜fim▁begin｜>", kFillHole = "<｜fim▁hole｜>", kFillEnd = "<｜fim▁end｜>";

using CompletionText = std::variant<std::string, std::vector<int32_t>>;

// PREFIX and SUFFIX as the model knows a text with a hole: begin, PREFIX, hole, SUFFIX, end.
Result<std::vector<int32_t>> filled_in_prompt(const std::string& prefix, const CompletionsRequest& request,
                                              const Tokenizer& tokenizer) {
  const auto begin = tokenizer.added_id(kFillBegin), hole = tokenizer.added_id(kFillHole),
             end = tokenizer.added_id(kFillEnd);
  if (!begin || !hole || !end)
    return invalid_argument("suffix is not supported: the tokenizer has no tokens to fill in a text");
  std::vector<int32_t> before, behind;
  const auto encode = [&](std::string_view text, std::vector<int32_t>& tokens) {
    return request.allow_special ? tokenizer.encode(text, tokens) : tokenizer.encode_plain(text, tokens);
  };
  DI_RETURN_IF_ERROR(encode(prefix, before));
  DI_RETURN_IF_ERROR(encode(request.suffix, behind));
  std::vector<int32_t> tokens;
  const auto first = tokenizer.added_id(kBegin);
  if (first) tokens.push_back(*first);
  tokens.push_back(*begin);
  tokens.insert(tokens.end(), before.begin() + (!before.empty() && before.front() == first ? 1 : 0), before.end());
  tokens.push_back(*hole);
  tokens.insert(tokens.end(), behind.begin(), behind.end());
  tokens.push_back(*end);
  return tokens;
}

Result<std::vector<int32_t>> completion_prompt(const CompletionText& prompt, const CompletionsRequest& request,
                                               const Tokenizer& tokenizer) {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return *ids;
  const std::string& text = std::get<std::string>(prompt);
  if (!request.suffix.empty()) return filled_in_prompt(text, request, tokenizer);
  return text_tokens(text, request.allow_special, tokenizer);
}

}  // namespace

Result<std::vector<int32_t>> text_tokens(std::string_view text, bool allow_special, const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens;
  DI_RETURN_IF_ERROR(allow_special ? tokenizer.encode(text, tokens) : tokenizer.encode_plain(text, tokens));
  const auto begin = tokenizer.added_id(kBegin);
  if (begin && (tokens.empty() || tokens.front() != *begin)) tokens.insert(tokens.begin(), *begin);
  return tokens;
}

RequestOr<PreparedRequest> prepare_completion(const CompletionsRequest& request, const RequestIdentity& identity,
                                              const RequestContext& context) {
  if (const Status status = check_priority(request.generation, identity); !status.ok()) return request_error(status);
  PreparedRequest prepared;
  const AnswerEnds ends(context.end_tokens, request.generation);
  std::vector<CompletionPrompt> shown;
  for (const CompletionText& text : request.prompts) {
    // Errors say which one it is.
    const auto refuse = [&](const Status& status) {
      return request_error(request.prompts.size() == 1
                               ? status
                               : status.with_context(fmt::format("prompt[{}]", prepared.prompts.size())));
    };
    Result<std::vector<int32_t>> tokens = completion_prompt(text, request, *context.tokenizer);
    if (!tokens.ok()) return refuse(tokens.status());
    const Result<int64_t> most = most_tokens(request.max_tokens, request.max_tokens,
                                             static_cast<int64_t>(tokens->size()), context.engine->max_context());
    if (!most.ok()) return refuse(most.status());
    EngineRequest& engine = prepared.prompts.emplace_back();
    engine.prompt = std::move(tokens).value();
    take_shared(request.generation, identity, context, ends, engine);
    GenerationParams& params = engine.params;
    params.max_tokens = *most;
    params.temperature = request.temperature;
    params.top_p = request.top_p;
    params.seed = request.seed.value_or(identity.seed);
    if (request.logprobs) params.logprobs = *request.logprobs;
    if (request.logprobs && request.echo) engine.prompt_logprobs = std::max(engine.prompt_logprobs, *request.logprobs);
    const auto* string = std::get_if<std::string>(&text);
    const bool begin_was_added = string != nullptr && !(request.allow_special && string->starts_with(kBegin));
    shown.push_back({engine.prompt, size_t{begin_was_added && engine.prompt.size() > 1 ? 1u : 0u}});
  }
  prepared.choices = static_cast<int>(request.generation.n);
  prepared.every_prompt_logprobs = request.echo && request.logprobs;
  prepared.answer = make_completion_answer(request, identity_of(request.model, identity, context), shown,
                                           *context.tokenizer, ends, context.draft_usage);
  prepared.stream = request.stream;
  prepared.ignored = request.ignored;
  return prepared;
}

Result<std::vector<int32_t>> completion_tokens(const CompletionsRequest& request, const Tokenizer& tokenizer) {
  std::vector<int32_t> all;
  for (const CompletionText& text : request.prompts) {
    DI_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, completion_prompt(text, request, tokenizer));
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return all;
}

}  // namespace deepinfer::serving
