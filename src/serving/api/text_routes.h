// Routes that answer from the tokenizer alone: /tokenize, /detokenize, /v1/messages/count_tokens.  They take time with
// the size of the body.
#pragma once

#include <variant>

#include "serving/api/api_error.h"
#include "serving/http/http_exchange.h"
#include "serving/requests/prepared_request.h"

namespace deepinfer::serving {

using AnswerOrError = std::variant<HttpResponse, ApiError>;

// {"prompt": text, "allow_special": bool} as Completions takes it, or a Chat Completions body; "model" may be left out.
// Answers {"count", "max_model_len", "tokens"}.
AnswerOrError answer_tokenize(const HttpRequest& request, const RequestContext& context);
// {"tokens": [ids]} -> {"prompt": text}
AnswerOrError answer_detokenize(const HttpRequest& request, const RequestContext& context);
// A Messages body -> {"input_tokens": N}
AnswerOrError answer_count_tokens(const HttpRequest& request, const RequestContext& context);

}  // namespace deepinfer::serving
