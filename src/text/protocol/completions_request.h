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
  bool allow_special = false;  // extension: spellings of control tokens in the text are these tokens
  float temperature = 1;       // [0, 2]
  float top_p = 1;             // (0, 1]
  uint32_t max_tokens = 16;    // at least 1
  float presence_penalty = 0;  // [-2, 2]
  float frequency_penalty = 0;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;                      // at most 16, none empty
  std::optional<int32_t> logprobs;                    // [0, 20]
  std::vector<std::pair<int32_t, float>> logit_bias;  // [-100, 100]
};

// One prompt and one answer a request: lists of prompts, n, best_of, echo and suffix are refused by name.
RequestOr<CompletionsRequest> parse_completions(std::string_view body, const ProtocolOptions& options = {});

}  // namespace deepinfer
