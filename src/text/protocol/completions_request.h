// Reads the body of a (legacy) Completions request: texts or token ids to be continued.  Called by batch jobs and the
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

// Of one request.
inline constexpr size_t kMostAnswers = 1024;

struct CompletionsRequest {
  std::string model;
  // At least one, and prompts * n <= kMostAnswers.  Ids are not checked against a vocabulary.
  std::vector<std::variant<std::string, std::vector<int32_t>>> prompts;
  std::string suffix;          // what follows the answer: the prompts are texts then; empty: nothing is known of it
  bool echo = false;           // the answer's text begins with the prompt; not with suffix
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

// Another best_of than n is refused by name.
RequestOr<CompletionsRequest> parse_completions(std::string_view body, const ProtocolOptions& options = {});

}  // namespace deepinfer
