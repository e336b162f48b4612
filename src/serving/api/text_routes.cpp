#include "serving/api/text_routes.h"

#include <limits>
#include <utility>
#include <vector>

#include "text/json_text.h"

namespace deepinfer::serving {
namespace {

using Tokens = std::vector<int32_t>;

HttpResponse answer_of(const Json& object) {
  HttpResponse response;
  response.body = dump_compact(object);
  return response;
}

ApiError wrong(std::string message) {
  return {400, "invalid_request_error", "invalid request body: " + std::move(message)};
}

// The body as an object, or what is wrong with it.
std::variant<Json, ApiError> read_object(const std::string& body) {
  Result<Json> json = parse_json(body);
  if (json.status().code() == StatusCode::kResourceExhausted) return overloaded(json.status().message());
  if (!json.ok()) return ApiError{400, "invalid_request_error", "invalid JSON request: " + json.status().message()};
  if (!json->is_object()) return wrong("expected an object");
  return *std::move(json);
}

AnswerOrError tokens_answer(const Tokens& tokens, const RequestContext& context) {
  Json out = Json::object();
  out["count"] = tokens.size();
  out["max_model_len"] = context.engine->max_context();
  out["tokens"] = tokens;
  return answer_of(out);
}

}  // namespace

AnswerOrError answer_tokenize(const HttpRequest& request, const RequestContext& context) {
  std::variant<Json, ApiError> read = read_object(request.body);
  if (auto* error = std::get_if<ApiError>(&read)) return std::move(*error);
  Json& body = std::get<Json>(read);
  if (body.contains("messages")) {
    if (!body.contains("model")) body["model"] = context.protocol.models.front();
    RequestOr<Tokens> tokens = prompt_tokens(Protocol::kChatCompletions, dump_compact(body), context);
    if (const auto* error = std::get_if<RequestError>(&tokens)) return api_error(*error);
    return tokens_answer(std::get<Tokens>(tokens), context);
  }
  const auto prompt = body.find("prompt");
  if (prompt == body.end() || !prompt->is_string()) return wrong("`prompt`: expected a string");
  const auto special = body.find("allow_special");
  const bool given = special != body.end() && !special->is_null();
  if (given && !special->is_boolean()) return wrong("`allow_special`: expected a boolean");
  const Result<Tokens> tokens =
      text_tokens(prompt->get_ref<const std::string&>(), given && special->get<bool>(), *context.tokenizer);
  if (!tokens.ok()) return api_error(request_error(tokens.status()));
  return tokens_answer(*tokens, context);
}

AnswerOrError answer_detokenize(const HttpRequest& request, const RequestContext& context) {
  const std::variant<Json, ApiError> read = read_object(request.body);
  if (const auto* error = std::get_if<ApiError>(&read)) return *error;
  const Json& body = std::get<Json>(read);
  const auto list = body.find("tokens");
  if (list == body.end() || !list->is_array()) return wrong("`tokens`: expected a list of token ids");
  Tokens tokens;
  const auto vocabulary = static_cast<uint64_t>(context.engine->vocabulary());
  for (const Json& one : *list) {
    if (!one.is_number_unsigned() || one.get<uint64_t>() >= vocabulary)
      return wrong("`tokens`: expected token ids from 0 to " + std::to_string(vocabulary - 1));
    tokens.push_back(one.get<int32_t>());
  }
  Json out = Json::object();
  out["prompt"] = context.tokenizer->decode(tokens);
  return answer_of(out);
}

AnswerOrError answer_count_tokens(const HttpRequest& request, const RequestContext& context) {
  const RequestOr<Tokens> tokens = prompt_tokens(Protocol::kMessages, request.body, context);
  if (const auto* error = std::get_if<RequestError>(&tokens)) return api_error(*error);
  Json out = Json::object();
  out["input_tokens"] = std::get<Tokens>(tokens).size();
  return answer_of(out);
}

}  // namespace deepinfer::serving
