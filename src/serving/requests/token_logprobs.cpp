#include "serving/requests/token_logprobs.h"

#include <utility>
#include <vector>

namespace deepinfer::serving {

TokenLogprobs token_logprobs(const Tokenizer& tokenizer, const GeneratedToken& token) {
  TokenLogprobs shown{std::string(tokenizer.bytes(token.token)), token.logprob, {}};
  for (const TokenLogprob& other : token.top_logprobs)
    shown.top.push_back({std::string(tokenizer.bytes(other.token)), other.logprob});
  return shown;
}

std::string prompt_logprobs(const Tokenizer& tokenizer, std::span<const GeneratedToken> tokens) {
  std::vector<PromptToken> shown;
  shown.reserve(tokens.size());
  for (const GeneratedToken& token : tokens) {
    PromptToken one{token.token, token_logprobs(tokenizer, token), {}};
    for (const TokenLogprob& other : token.top_logprobs) one.top_ids.push_back(other.token);
    shown.push_back(std::move(one));
  }
  return prompt_logprobs_json(shown);
}

}  // namespace deepinfer::serving
