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

// A prompt as the engine gets it; begins_at: the first token that is the request's own.
struct CompletionPrompt {
  std::vector<int32_t> tokens;
  size_t begins_at = 0;
};

// identity: of the first choice.  draft_usage: the usage tells of drafts.  tokenizer outlives the answer.
std::unique_ptr<RequestAnswer> make_completion_answer(const CompletionsRequest& request, AnswerIdentity identity,
                                                      std::span<const CompletionPrompt> prompts,
                                                      const Tokenizer& tokenizer, AnswerEnds ends, bool draft_usage);

}  // namespace deepinfer::serving
