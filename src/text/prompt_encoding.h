// encode_prompt: Conversation -> the exact prompt text of DeepSeek V4.1, with the byte ranges that are control tokens.
// Called by the command line, the Python package and the protocol layer; the tokenizer turns the result into ids.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/byte_range.h"
#include "text/conversation.h"

namespace deepinfer {

// Where reading of the output starts (text/output_parser.h).  "Fresh" parts drop one run of leading line feeds.
enum class OutputStart { kContent, kReasoning, kContentContinued, kReasoningContinued, kTools };

struct RenderedPrompt {
  std::string text;
  // One entry per control token, ascending, disjoint.  Bytes outside are ordinary text whatever they spell:
  // text of a user can never become a control token.
  std::vector<ByteRange> special;
  // The image of each placeholder; placeholder i is special[image_tokens[i]].  Its segment becomes the id
  // image_token_id of config.json, never a look-up of its spelling.
  std::vector<ImageSource> images;
  std::vector<size_t> image_tokens;
  OutputStart start = OutputStart::kContent;
};

struct PromptOptions {
  // The number written for each effort level (1..100).
  int effort_low = 50;
  int effort_high = 75;
  int effort_xhigh = 75;
  int effort_max = 100;
};

// Linear in the size of the conversation.  Errors (invalid argument): effort numbers out of range, images in a role
// that has none, `prefix` anywhere but on a last assistant message, late tools or calls on the wrong role.
Result<RenderedPrompt> encode_prompt(const Conversation& conversation, const PromptOptions& options = {});

}  // namespace deepinfer
