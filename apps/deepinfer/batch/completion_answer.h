// The answer of a Completions request, collected token by token.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "batch/batch_request.h"
#include "text/protocol/completions_answer.h"

namespace deepinfer::cli {

// answer: what is known before the first token.  tokenizer outlives the answer.
std::unique_ptr<BatchAnswer> make_completion_answer(CompletionsAnswer answer, const Tokenizer& tokenizer,
                                                    std::vector<int32_t> end_tokens, std::vector<std::string> stop);

}  // namespace deepinfer::cli
