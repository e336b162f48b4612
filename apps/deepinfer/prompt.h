// From what a person typed to the token ids that the model reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/conversation.h"
#include "text/prompt_encoding.h"
#include "text/tokenizer.h"

namespace deepinfer::cli {

struct Prompt {
  std::vector<int32_t> ids;
  OutputStart start = OutputStart::kContent;  // where reading of the answer begins
};

// The conversation as the model was trained to read it; nothing in it can spell a control token.
Result<Prompt> chat_prompt(const Tokenizer& tokenizer, const Conversation& conversation);

// The text itself, spellings of control tokens included, behind exactly one begin-of-sentence token: the one that it
// begins with, or else one put in front.  The answer is reasoning first where the text ends with <think>.
Result<Prompt> raw_prompt(const Tokenizer& tokenizer, const std::string& text);

}  // namespace deepinfer::cli
