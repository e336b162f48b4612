#include "prompt.h"

#include <optional>

namespace deepinfer::cli {

Result<Prompt> chat_prompt(const Tokenizer& tokenizer, const Conversation& conversation) {
  DI_ASSIGN_OR_RETURN(const RenderedPrompt rendered, encode_prompt(conversation));
  Prompt prompt;
  prompt.start = rendered.start;
  DI_RETURN_IF_ERROR(tokenizer.encode_segments(rendered.text, rendered.special, prompt.ids));
  return prompt;
}

Result<Prompt> raw_prompt(const Tokenizer& tokenizer, const std::string& text) {
  Prompt prompt;
  DI_RETURN_IF_ERROR(tokenizer.encode(text, prompt.ids));
  const std::optional<int32_t> begin = tokenizer.added_id("<｜begin▁of▁sentence｜>");
  if (begin && (prompt.ids.empty() || prompt.ids.front() != *begin)) prompt.ids.insert(prompt.ids.begin(), *begin);
  const std::optional<int32_t> think = tokenizer.added_id("<think>");
  prompt.start = think && !prompt.ids.empty() && prompt.ids.back() == *think ? OutputStart::kReasoningContinued
                                                                             : OutputStart::kContentContinued;
  return prompt;
}

}  // namespace deepinfer::cli
