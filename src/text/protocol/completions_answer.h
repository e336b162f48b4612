// The answer to a Completions request as one text_completion object.
#pragma once

#include <string>
#include <vector>

#include "text/protocol/answer.h"

namespace deepinfer {

struct CompletionsAnswer {
  AnswerIdentity identity;
  PromptUsage prompt;
  int64_t output_tokens = 0;  // the end token is none of them
  std::string text;
  bool with_logprobs = false;
  std::vector<TokenLogprobs> logprobs;  // of each token
  AnswerEnd end = AnswerEnd::kStop;
};

std::string completions_object(const CompletionsAnswer& answer);

}  // namespace deepinfer
