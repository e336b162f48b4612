// Streams that answer while a long prompt arrives: what the streams wait for their next tokens, before it came and
// beside it.  For `deepinfer bench latency --arriving-prompt-tokens`.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "load/load_run.h"

namespace deepinfer::cli {

struct ArrivingPromptResult {
  int64_t streams = 0, prompt_tokens = 0;
  int64_t waits_beside = 0;   // of all streams, from the submission of the prompt to its first token
  int64_t steps_beside = 0;   // of the engine meanwhile
  double first_token = 0;     // of the prompt, seconds after its submission
  Percentiles alone, beside;  // seconds between two deliveries to a stream
  double longest_beside = 0;
};

// Each stream runs until the prompt has its first token and is cancelled then; `alone_tokens` tokens of each come
// before the prompt is submitted.  A stream that ends before is an error: its answer was too short for this.
Result<ArrivingPromptResult> run_arriving_prompt(Engine& engine, std::vector<EngineRequest> streams,
                                                 EngineRequest prompt, int64_t alone_tokens);

}  // namespace deepinfer::cli
