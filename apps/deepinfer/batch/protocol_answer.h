// The answer of Chat Completions, Responses and Messages requests, collected token by token.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "batch/batch_request.h"
#include "text/protocol/answer_stream.h"

namespace deepinfer::cli {

// tokenizer outlives the answer.  logprobs: whether the request asked for them; now: when the answer was made.
std::unique_ptr<BatchAnswer> make_protocol_answer(AnswerStream stream, const Tokenizer& tokenizer,
                                                  std::vector<int32_t> end_tokens, bool logprobs, int64_t prompt_tokens,
                                                  int64_t now);

// A token as the protocols show it.
TokenLogprobs token_logprobs(const Tokenizer& tokenizer, const GeneratedToken& token);

}  // namespace deepinfer::cli
