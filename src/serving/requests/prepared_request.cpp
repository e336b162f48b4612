#include "serving/requests/prepared_request.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "engine/output_grammar.h"
#include "serving/requests/completion_answer.h"
#include "serving/requests/protocol_answer.h"
#include "text/prompt_encoding.h"
#include "text/protocol/chat_completions_request.h"
#include "text/protocol/completions_request.h"
#include "text/protocol/messages_request.h"
#include "text/protocol/responses_request.h"

namespace deepinfer::serving {
namespace {

constexpr std::string_view kBegin = "<｜begin▁of▁sentence｜>";

AnswerIdentity identity_of(const std::string& model, const RequestIdentity& request, const RequestContext& context) {
  AnswerIdentity identity;
  identity.id = request.id;
  identity.model = model;
  identity.fingerprint = context.fingerprint;
  identity.created = request.created;
  identity.random = request.random;
  return identity;
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

// What the context says of every request, and what every protocol may ask for.
void take_shared(const GenerationFields& fields, const RequestIdentity& identity, const RequestContext& context,
                 const AnswerEnds& ends, PreparedRequest& prepared) {
  EngineRequest& request = prepared.request;
  GenerationParams& params = request.params;
  params.draft_tokens = context.draft_tokens;
  params.speculative_sampling = context.speculative_sampling;
  request.prefix_replay = context.prefix_replay;
  params.stop_tokens = ends.stops;
  params.presence_penalty = fields.presence_penalty;
  params.frequency_penalty = fields.frequency_penalty;
  params.repetition_penalty = fields.repetition_penalty;
  params.min_p = fields.min_p;
  params.top_k = fields.top_k;
  for (const auto& [token, value] : fields.logit_bias) params.logit_bias.push_back({token, value});
  request.min_tokens = fields.min_tokens;
  request.prompt_logprobs = fields.prompt_logprobs.value_or(-1);
  request.priority = fields.priority;
  request.timeout = fields.timeout;
  request.cache_salt = identity.tenant;
  if (!fields.cache_salt.empty())
    request.cache_salt = XXH3_64bits_withSeed(fields.cache_salt.data(), fields.cache_salt.size(), identity.tenant);
  prepared.choices = static_cast<int>(fields.n);
}

struct EncodedPrompt {
  std::vector<int32_t> tokens;
  OutputStart start = OutputStart::kContent;
};

Result<EncodedPrompt> encode_conversation(const Conversation& conversation, const Tokenizer& tokenizer) {
  DI_ASSIGN_OR_RETURN(const RenderedPrompt rendered, encode_prompt(conversation));
  if (!rendered.images.empty()) {
    const std::string& field = rendered.images.front().field;
    return invalid_argument(
        fmt::format("{}image parts are not supported by this model", field.empty() ? std::string() : field + ": "));
  }
  EncodedPrompt prompt{{}, rendered.start};
  DI_RETURN_IF_ERROR(tokenizer.encode_segments(rendered.text, rendered.special, prompt.tokens));
  return prompt;
}

template <typename MakeWriter>
RequestOr<PreparedRequest> prepare_chat(const InferenceRequest& request, const MakeWriter& make_writer,
                                        const RequestIdentity& identity, const RequestContext& context) {
  Result<EncodedPrompt> prompt = encode_conversation(request.conversation, *context.tokenizer);
  if (!prompt.ok()) return request_error(prompt.status());
  PreparedRequest prepared;
  EngineRequest& engine = prepared.request;
  engine.prompt = std::move(prompt->tokens);
  const auto prompt_tokens = static_cast<int64_t>(engine.prompt.size());
  const Result<int64_t> most = most_tokens(request.max_tokens, default_max_tokens(request.conversation), prompt_tokens,
                                           context.engine->max_context());
  if (!most.ok()) return request_error(most.status());
  const AnswerEnds ends(context.end_tokens, request.generation);
  take_shared(request.generation, identity, context, ends, prepared);
  GenerationParams& params = engine.params;
  params.max_tokens = *most;
  params.temperature = request.temperature;
  params.top_p = request.top_p;
  params.seed = request.seed.value_or(identity.seed);
  if (request.logprobs) params.logprobs = request.top_logprobs;
  Result<std::optional<GrammarSpec>> grammar = output_grammar(request, prompt->start, *context.tokenizer);
  if (!grammar.ok()) return request_error(grammar.status());
  engine.grammar = std::move(grammar).value();
  std::vector<AnswerStream> streams;
  for (int i = 0; i < prepared.choices; ++i) {
    AnswerIdentity answer = identity_of(request.model, identity, context);
    answer.choice = i;
    answer.random += static_cast<uint64_t>(i) * 0xD1B54A32D192ED03u;
    streams.emplace_back(make_writer(), request.parser_options(prompt->start), request.conversation.thinking,
                         std::move(answer));
  }
  ProtocolAnswerOptions options;
  options.logprobs = request.logprobs;
  options.include_usage = request.include_usage;
  options.prompt_tokens = prompt_tokens;
  options.completed = identity.completed;
  prepared.answer = make_protocol_answer(std::move(streams), *context.tokenizer, ends, options);
  prepared.stream = request.stream;
  prepared.ignored = request.ignored;
  return prepared;
}

Result<std::vector<int32_t>> completion_prompt(const CompletionsRequest& request, const Tokenizer& tokenizer) {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) return *ids;
  return text_tokens(std::get<std::string>(request.prompt), request.allow_special, tokenizer);
}

RequestOr<PreparedRequest> prepare_completion(const CompletionsRequest& request, const RequestIdentity& identity,
                                              const RequestContext& context) {
  Result<std::vector<int32_t>> prompt = completion_prompt(request, *context.tokenizer);
  if (!prompt.ok()) return request_error(prompt.status());
  PreparedRequest prepared;
  EngineRequest& engine = prepared.request;
  engine.prompt = std::move(prompt).value();
  const Result<int64_t> most = most_tokens(request.max_tokens, request.max_tokens,
                                           static_cast<int64_t>(engine.prompt.size()), context.engine->max_context());
  if (!most.ok()) return request_error(most.status());
  const AnswerEnds ends(context.end_tokens, request.generation);
  take_shared(request.generation, identity, context, ends, prepared);
  GenerationParams& params = engine.params;
  params.max_tokens = *most;
  params.temperature = request.temperature;
  params.top_p = request.top_p;
  params.seed = request.seed.value_or(identity.seed);
  if (request.logprobs) params.logprobs = *request.logprobs;
  if (request.logprobs && request.echo) engine.prompt_logprobs = std::max(engine.prompt_logprobs, *request.logprobs);
  const auto* text = std::get_if<std::string>(&request.prompt);
  const bool begin_was_added = text != nullptr && !(request.allow_special && text->starts_with(kBegin));
  prepared.answer =
      make_completion_answer(request, identity_of(request.model, identity, context), engine.prompt,
                             begin_was_added && engine.prompt.size() > 1 ? 1 : 0, *context.tokenizer, ends);
  prepared.stream = request.stream;
  prepared.ignored = request.ignored;
  return prepared;
}

// Calls use(request) with what the body says, or gives back why it says nothing.
template <typename T, typename Parsed, typename Use>
RequestOr<T> with(Parsed&& parsed, Use&& use) {
  if (auto* error = std::get_if<RequestError>(&parsed)) return std::move(*error);
  return use(std::get<0>(parsed));
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

Result<std::vector<int32_t>> text_tokens(std::string_view text, bool allow_special, const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens;
  DI_RETURN_IF_ERROR(allow_special ? tokenizer.encode(text, tokens) : tokenizer.encode_plain(text, tokens));
  const auto begin = tokenizer.added_id(kBegin);
  if (begin && (tokens.empty() || tokens.front() != *begin)) tokens.insert(tokens.begin(), *begin);
  return tokens;
}

RequestOr<PreparedRequest> prepare_request(Protocol protocol, std::string_view body, const RequestIdentity& identity,
                                           const RequestContext& context) {
  switch (protocol) {
    case Protocol::kChatCompletions:
      return with<PreparedRequest>(
          parse_chat_completions(body, context.protocol), [&](const InferenceRequest& request) {
            return prepare_chat(
                request, [&] { return make_chat_completions_writer(request); }, identity, context);
          });
    case Protocol::kMessages:
      return with<PreparedRequest>(parse_messages(body, context.protocol), [&](const InferenceRequest& request) {
        return prepare_chat(
            request, [&] { return make_messages_writer(request); }, identity, context);
      });
    case Protocol::kResponses:
      return with<PreparedRequest>(parse_responses(body, context.protocol), [&](const ResponsesRequest& request) {
        return prepare_chat(
            request.inference, [&] { return make_responses_writer(request); }, identity, context);
      });
    case Protocol::kCompletions:
      return with<PreparedRequest>(parse_completions(body, context.protocol), [&](const CompletionsRequest& request) {
        return prepare_completion(request, identity, context);
      });
  }
  DI_CHECK(false, "a protocol that is none");
}

RequestOr<std::vector<int32_t>> prompt_tokens(Protocol protocol, std::string_view body, const RequestContext& context) {
  using Tokens = std::vector<int32_t>;
  const auto of_conversation = [&](const Conversation& conversation) -> RequestOr<Tokens> {
    Result<EncodedPrompt> prompt = encode_conversation(conversation, *context.tokenizer);
    if (!prompt.ok()) return request_error(prompt.status());
    return std::move(prompt->tokens);
  };
  const auto of_chat = [&](const InferenceRequest& request) { return of_conversation(request.conversation); };
  switch (protocol) {
    case Protocol::kChatCompletions:
      return with<Tokens>(parse_chat_completions(body, context.protocol), of_chat);
    case Protocol::kMessages:
      return with<Tokens>(parse_messages(body, context.protocol), of_chat);
    case Protocol::kResponses:
      return with<Tokens>(parse_responses(body, context.protocol), [&](const ResponsesRequest& request) {
        return of_conversation(request.inference.conversation);
      });
    case Protocol::kCompletions:
      return with<Tokens>(parse_completions(body, context.protocol),
                          [&](const CompletionsRequest& request) -> RequestOr<Tokens> {
                            Result<Tokens> tokens = completion_prompt(request, *context.tokenizer);
                            if (!tokens.ok()) return request_error(tokens.status());
                            return std::move(tokens).value();
                          });
  }
  DI_CHECK(false, "a protocol that is none");
}

}  // namespace deepinfer::serving
