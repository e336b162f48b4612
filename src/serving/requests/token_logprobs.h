// Log-probabilities of the engine as the protocols show them: with the bytes of the tokens.
#pragma once

#include <span>
#include <string>

#include "engine/generator.h"
#include "text/protocol/answer.h"
#include "text/tokenizer.h"

namespace deepinfer::serving {

TokenLogprobs token_logprobs(const Tokenizer& tokenizer, const GeneratedToken& token);
// Answer::prompt_logprobs of these tokens.
std::string prompt_logprobs(const Tokenizer& tokenizer, std::span<const GeneratedToken> tokens);

}  // namespace deepinfer::serving
