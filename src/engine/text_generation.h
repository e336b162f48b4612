// TextGeneration: requests of an engine as text: tokens become characters as they come, stop strings end an answer.
// What the Python package and completions stand on; chat answers are split further by text/output_parser.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

namespace deepinfer {

struct TextRequest {
  EngineRequest request;
  std::vector<std::string> stop;  // strings that end the answer
  bool include_stop = false;      // the stop string, or the stop token's spelling, is part of the text
};

struct TextSummary {
  RequestSummary request;  // answer_tokens: those delivered here
  int stop_string = -1;    // index in TextRequest::stop, where one ended the answer
};

struct TextUpdate {
  RequestId id = 0;
  std::string_view text;                   // whole characters; what may begin a stop string waits
  std::span<const GeneratedToken> tokens;  // up to the one that completed a stop string
  const TextSummary* end = nullptr;        // with the last update, which may have neither text nor tokens
  // As RequestUpdate's.
  std::span<const GeneratedToken> prompt_logprobs = {};
  int64_t drafted = 0;
  int64_t weights_version = 0;
  const TokenChoices* choices = nullptr;  // also of tokens behind the one that completed a stop string
};
using TextCallback = std::function<void(const TextUpdate&)>;

// Errors and threads as Engine::submit.  engine and tokenizer outlive the request.
Result<RequestId> submit_text(Engine& engine, const Tokenizer& tokenizer, TextRequest request, TextCallback on_update);

}  // namespace deepinfer
