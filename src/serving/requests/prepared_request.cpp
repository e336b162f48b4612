#include "serving/requests/prepared_request.h"

#include <fmt/format.h>

#include <utility>

#include "engine/output_grammar.h"
#include "serving/requests/protocol_answer.h"
#include "serving/requests/request_preparation.h"
#include "text/prompt_encoding.h"
#include "text/protocol/chat_completions_request.h"
#include "text/protocol/completions_request.h"
#include "text/protocol/messages_request.h"
#include "text/protocol/responses_request.h"

namespace deepinfer::serving {
namespace {

int64_t default_max_tokens(const Conversation& conversation) {
  if (!conversation.thinking) return 8192;
  return conversation.effort.level == EffortLevel::kMax && conversation.effort.number == 0 ? 131072 : 65536;
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
  if (const Status status = check_priority(request.generation, identity); !status.ok()) return request_error(status);
  PreparedRequest prepared;
  EngineRequest& engine = prepared.prompts.emplace_back();
  engine.prompt = std::move(prompt->tokens);
  const auto prompt_tokens = static_cast<int64_t>(engine.prompt.size());
  const Result<int64_t> most = most_tokens(request.max_tokens, default_max_tokens(request.conversation), prompt_tokens,
                                           context.engine->max_context());
  if (!most.ok()) return request_error(most.status());
  const AnswerEnds ends(context.end_tokens, request.generation);
  take_shared(request.generation, identity, context, ends, engine);
  prepared.choices = static_cast<int>(request.generation.n);
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
  options.draft_usage = context.draft_usage;
  prepared.answer = make_protocol_answer(std::move(streams), *context.tokenizer, ends, options);
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

int64_t PreparedRequest::prompt_tokens() const {
  int64_t tokens = 0;
  for (const EngineRequest& request : prompts) tokens += static_cast<int64_t>(request.prompt.size());
  return tokens;
}

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
        RequestOr<PreparedRequest> prepared = prepare_chat(
            request, [&] { return make_messages_writer(request); }, identity, context);
        // message_start tells how much of the prompt was cached.
        if (auto* ready = std::get_if<PreparedRequest>(&prepared)) ready->opens_with_first_token = true;
        return prepared;
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
                            Result<Tokens> tokens = completion_tokens(request, *context.tokenizer);
                            if (!tokens.ok()) return request_error(tokens.status());
                            return std::move(tokens).value();
                          });
  }
  DI_CHECK(false, "a protocol that is none");
}

}  // namespace deepinfer::serving
