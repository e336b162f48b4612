// The answers to a Completions request, as chunks of a stream or as one text_completion object.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/protocol/answer.h"

namespace deepinfer {

struct CompletionsAnswer {
  AnswerIdentity identity;
  PromptUsage prompt;                // zeros where another answer to the prompt tells of it
  std::optional<DraftUsage> drafts;  // as Answer's
  int64_t output_tokens = 0;         // the end token is none of them
  std::string text;                  // begins with the prompt where it was to be repeated
  bool with_logprobs = false;
  std::vector<TokenLogprobs> logprobs;  // of each token; NaN: it has none, as the first of a prompt
  AnswerEnd end = AnswerEnd::kStop;
  std::string prompt_logprobs;  // as Answer's
};

// The answers to one request, in the order of their choices; at least one.
std::string completions_object(std::span<const CompletionsAnswer* const> answers);

// A chunk: the text and the tokens that `answer` has got since it had `text` bytes and `tokens` tokens with
// log-probabilities.
std::string completions_chunk(const CompletionsAnswer& answer, size_t text, size_t tokens);
// A choice's last chunk, with its finish_reason; the usage where the request has one answer.
std::string completions_last_chunk(const CompletionsAnswer& answer, bool with_usage);
// The usage of all, in a chunk without choices.
std::string completions_usage_chunk(std::span<const CompletionsAnswer* const> answers);

}  // namespace deepinfer
