// The object that `run --json` prints.
#pragma once

#include "answer.h"
#include "loaded_model.h"
#include "text/json_text.h"

namespace deepinfer::cli {

// model, content, reasoning and tool_calls (where there are any), finish_reason, usage, seed, logprobs (where asked
// for), drafts, timings.
Json answer_json(const Answer& answer, const LoadedModel& model, const GenerationParams& params);

}  // namespace deepinfer::cli
