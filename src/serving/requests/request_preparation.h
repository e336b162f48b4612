// What the preparation of every protocol's requests shares.  Inside serving/requests only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "serving/requests/answer_ends.h"
#include "serving/requests/prepared_request.h"
#include "text/protocol/answer.h"
#include "text/protocol/completions_request.h"
#include "text/protocol/generation_fields.h"

namespace deepinfer::serving {

AnswerIdentity identity_of(const std::string& model, const RequestIdentity& request, const RequestContext& context);

// Most tokens of the answer: those that were given, else `fallback`, lowered to the room.
Result<int64_t> most_tokens(std::optional<uint32_t> given, int64_t fallback, int64_t prompt, int64_t context);

// Whether whoever sent it may have its priority.
Status check_priority(const GenerationFields& fields, const RequestIdentity& identity);

// What the context says of every request, and what every protocol may ask for.
void take_shared(const GenerationFields& fields, const RequestIdentity& identity, const RequestContext& context,
                 const AnswerEnds& ends, EngineRequest& request);

// Of Completions (prepared_completion.cpp).
RequestOr<PreparedRequest> prepare_completion(const CompletionsRequest& request, const RequestIdentity& identity,
                                              const RequestContext& context);
// The tokens of all its prompts, one after the other.
Result<std::vector<int32_t>> completion_tokens(const CompletionsRequest& request, const Tokenizer& tokenizer);

}  // namespace deepinfer::serving
