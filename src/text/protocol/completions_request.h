// Reads the body of a (legacy) Completions request: a text or token ids to be continued.  Called by batch jobs and the
// server; a pure function of its arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/protocol/inference_request.h"
#include "text/protocol/request_error.h"

namespace deepinfer {

struct CompletionsRequest {
  std::string model;
  std::variant<std::string, std::vector<int32_t>> prompt;  // ids are not checked against a vocabulary
  bool echo = false;           // the answer's text begins with the prompt; with logprobs only for n = 1
  bool allow_special = false;  // extension: spellings of control tokens in the text are these tokens
  float temperature = 1;       // [0, 2]
  float top_p = 1;             // (0, 1]
  uint32_t max_tokens = 16;    // at least 1
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;    // at most 16, none empty
  std::optional<int32_t> logprobs;  // [0, 20]
  bool stream = false;
  bool include_usage = false;
  GenerationFields generation;
  std::vector<std::string> ignored;  // as InferenceRequest's
};

// One prompt a request: lists of prompts, another best_of than n and suffix are refused by name.
RequestOr<CompletionsRequest> parse_completions(std::string_view body, const ProtocolOptions& options = {});

}  // namespace deepinfer
