#include "batch/batch_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "batch/completion_answer.h"
#include "batch/protocol_answer.h"
#include "engine/output_grammar.h"
#include "text/prompt_encoding.h"
#include "text/protocol/chat_completions_request.h"
#include "text/protocol/completions_request.h"
#include "text/protocol/messages_request.h"
#include "text/protocol/responses_request.h"

namespace deepinfer::cli {
namespace {

uint64_t number_of(std::string_view digits) {
  uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return number;
}

uint64_t seed_of(const std::optional<uint64_t>& given, const std::string& key, const BatchContext& context) {
  return given ? *given : number_of(std::string_view(key).substr(0, 16)) ^ (context.seed * 0x9E3779B97F4A7C15u);
}

AnswerIdentity identity_of(const std::string& model, const std::string& key, const BatchContext& context) {
  AnswerIdentity identity;
  identity.id = key;
  identity.model = model;
  identity.fingerprint = context.fingerprint;
  identity.created = context.created;
  identity.random = number_of(std::string_view(key).substr(16));
  return identity;
}

RequestError refused(std::string message) {
  return {RequestError::Kind::kRequest, std::move(message)};
}

// Tokens of an answer whose request names no number: protocols.md 1.5's table, lowered to the room.
Result<int64_t> most_tokens(std::optional<uint32_t> given, int64_t fallback, int64_t prompt, int64_t context) {
  const int64_t completion = given ? *given : 0;
  if (prompt + std::max<int64_t>(completion, 1) > context)
    return invalid_argument(fmt::format(
        "This model's maximum context length is {} tokens. However, you requested {} tokens ({} in the messages, {} in "
        "the completion). Please reduce the length of the messages or completion.",
        context, prompt + completion, prompt, completion));
  return given ? completion : std::min(fallback, context - prompt);
}

int64_t default_max_tokens(const Conversation& conversation) {
  if (!conversation.thinking) return 8192;
  return conversation.effort.level == EffortLevel::kMax && conversation.effort.number == 0 ? 131072 : 65536;
}

// What the command line says of every request.
void take_common(const BatchContext& context, EngineRequest& request) {
  request.params.draft_tokens = context.draft_tokens;
  request.params.speculative_sampling = context.speculative_sampling;
  request.prefix_replay = context.prefix_replay;
}

RequestOr<PreparedRequest> prepare_chat(const InferenceRequest& request, std::unique_ptr<AnswerWriter> writer,
                                        const std::string& key, const BatchContext& context) {
  const Result<RenderedPrompt> rendered = encode_prompt(request.conversation);
  if (!rendered.ok()) return request_error(rendered.status());
  if (!rendered->image_tokens.empty()) return refused("images are not supported by this model");
  PreparedRequest prepared;
  EngineRequest& engine = prepared.request;
  if (const Status status = context.tokenizer->encode_segments(rendered->text, rendered->special, engine.prompt);
      !status.ok())
    return request_error(status);
  const auto prompt_tokens = static_cast<int64_t>(engine.prompt.size());
  const Result<int64_t> most = most_tokens(request.max_tokens, default_max_tokens(request.conversation), prompt_tokens,
                                           context.engine->max_context());
  if (!most.ok()) return request_error(most.status());
  GenerationParams& params = engine.params;
  params.max_tokens = *most;
  params.temperature = request.temperature;
  params.top_p = request.top_p;
  params.seed = seed_of(request.seed, key, context);
  params.stop_tokens = context.end_tokens;
  take_common(context, engine);
  if (request.logprobs) params.logprobs = request.top_logprobs;
  Result<std::optional<GrammarSpec>> grammar = output_grammar(request, rendered->start, *context.tokenizer);
  if (!grammar.ok()) return request_error(grammar.status());
  engine.grammar = std::move(grammar).value();
  AnswerStream stream(std::move(writer), request.parser_options(rendered->start), request.conversation.thinking,
                      identity_of(request.model, key, context));
  prepared.answer = make_protocol_answer(std::move(stream), *context.tokenizer, context.end_tokens, request.logprobs,
                                         prompt_tokens, context.created);
  return prepared;
}

RequestOr<PreparedRequest> prepare_completion(const CompletionsRequest& request, const std::string& key,
                                              const BatchContext& context) {
  PreparedRequest prepared;
  EngineRequest& engine = prepared.request;
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) {
    engine.prompt = *ids;
  } else {
    const auto& text = std::get<std::string>(request.prompt);
    const Status status = request.allow_special ? context.tokenizer->encode(text, engine.prompt)
                                                : context.tokenizer->encode_plain(text, engine.prompt);
    if (!status.ok()) return request_error(status);
    const auto begin = context.tokenizer->added_id("<｜begin▁of▁sentence｜>");
    if (begin && (engine.prompt.empty() || engine.prompt.front() != *begin))
      engine.prompt.insert(engine.prompt.begin(), *begin);
  }
  const auto prompt_tokens = static_cast<int64_t>(engine.prompt.size());
  const Result<int64_t> most =
      most_tokens(request.max_tokens, request.max_tokens, prompt_tokens, context.engine->max_context());
  if (!most.ok()) return request_error(most.status());
  GenerationParams& params = engine.params;
  params.max_tokens = *most;
  params.temperature = request.temperature;
  params.top_p = request.top_p;
  params.presence_penalty = request.presence_penalty;
  params.frequency_penalty = request.frequency_penalty;
  for (const auto& [token, value] : request.logit_bias) params.logit_bias.push_back({token, value});
  params.seed = seed_of(request.seed, key, context);
  params.stop_tokens = context.end_tokens;
  take_common(context, engine);
  if (request.logprobs) params.logprobs = *request.logprobs;
  CompletionsAnswer answer;
  answer.identity = identity_of(request.model, key, context);
  answer.prompt.prompt_tokens = prompt_tokens;
  answer.with_logprobs = request.logprobs.has_value();
  prepared.answer = make_completion_answer(std::move(answer), *context.tokenizer, context.end_tokens, request.stop);
  return prepared;
}

}  // namespace

RequestError request_error(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      return {RequestError::Kind::kRequest, status.message(), 400};
    case StatusCode::kResourceExhausted:
      return {RequestError::Kind::kRequest, status.message(), 503};
    default:
      return {RequestError::Kind::kRequest, status.message(), 500};
  }
}

RequestOr<PreparedRequest> prepare_request(const BatchLine& line, const std::string& key, const BatchContext& context) {
  const auto prepare = [&](auto&& parsed, auto&& make) -> RequestOr<PreparedRequest> {
    if (auto* error = std::get_if<RequestError>(&parsed)) return std::move(*error);
    return make(std::get<0>(parsed));
  };
  switch (line.url) {
    case BatchUrl::kChatCompletions:
      return prepare(parse_chat_completions(line.body, context.protocol), [&](const InferenceRequest& request) {
        return prepare_chat(request, make_chat_completions_writer(request), key, context);
      });
    case BatchUrl::kMessages:
      return prepare(parse_messages(line.body, context.protocol), [&](const InferenceRequest& request) {
        return prepare_chat(request, make_messages_writer(request), key, context);
      });
    case BatchUrl::kResponses:
      return prepare(parse_responses(line.body, context.protocol), [&](const ResponsesRequest& request) {
        return prepare_chat(request.inference, make_responses_writer(request), key, context);
      });
    case BatchUrl::kCompletions:
      return prepare(parse_completions(line.body, context.protocol),
                     [&](const CompletionsRequest& request) { return prepare_completion(request, key, context); });
  }
  return refused("unknown url");
}

}  // namespace deepinfer::cli
