// output_grammar: what a request of the protocols holds its output to, as a grammar: response formats and tool calls.
// Called by batch jobs and the Python package, which turn requests into EngineRequests.
#pragma once

#include <optional>

#include "base/status.h"
#include "grammar/grammar_spec.h"
#include "text/protocol/inference_request.h"
#include "text/tokenizer.h"

namespace deepinfer {

// None where the request asks for nothing.  start: RenderedPrompt::start, what the output begins with.
//   tool_choice "required" or a name: calls, at once or behind the reasoning;
//   tool_choice "auto": what looks like a block of calls is one, with known tools; text is free until then;
//   a response format: the content, where no call is made.
// Arguments follow the schemas of tools with "strict": true, those of other tools are JSON objects.
// Error: kUnsupported when the model's tokenizer has no token that ends reasoning.
Result<std::optional<GrammarSpec>> output_grammar(const InferenceRequest& request, OutputStart start,
                                                  const Tokenizer& tokenizer);

}  // namespace deepinfer
