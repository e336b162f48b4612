// The answers of Completions requests.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "serving/requests/answer_ends.h"
#include "serving/requests/request_answer.h"
#include "text/protocol/completions_answer.h"
#include "text/protocol/completions_request.h"
#include "text/tokenizer.h"

namespace deepinfer::serving {

// identity: of the first choice; prompt: the tokens that the engine gets; begins_at: the first of them that is the
// request's own.  tokenizer outlives the answer.
std::unique_ptr<RequestAnswer> make_completion_answer(const CompletionsRequest& request, AnswerIdentity identity,
                                                      std::span<const int32_t> prompt, size_t begins_at,
                                                      const Tokenizer& tokenizer, AnswerEnds ends);

}  // namespace deepinfer::serving
