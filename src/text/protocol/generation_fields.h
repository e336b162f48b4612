// Fields by which a request steers how its answers are drawn, beyond the official API: what Profile::kExtended adds to
// the protocols, and what Completions requests have in every profile.  Ranges that need a vocabulary are the engine's.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace deepinfer {

inline constexpr uint32_t kMostChoices = 16;
inline constexpr int32_t kHighestPriority = 1000;

struct GenerationFields {
  uint32_t n = 1;              // answers to the one prompt, [1, kMostChoices]; Chat Completions and Completions only
  float presence_penalty = 0;  // [-2, 2]
  float frequency_penalty = 0;
  float repetition_penalty = 1;                       // [0.001, 1000]
  float min_p = 0;                                    // [0, 1]
  int32_t top_k = 0;                                  // 0 and -1: off
  std::vector<std::pair<int32_t, float>> logit_bias;  // token and value, [-100, 100]
  std::vector<int32_t> stop_token_ids;                // at most 128
  bool ignore_eos = false;                            // the end token does not end the answer, and has no text
  uint32_t min_tokens = 0;
  std::optional<int32_t> prompt_logprobs;  // [0, 20]; not with stream
  int32_t priority = 0;                    // [-kHighestPriority, kHighestPriority], the higher goes first
  std::chrono::milliseconds timeout{0};    // of the whole answer; 0: none
  std::string cache_salt;                  // prefixes are shared among requests with the same salt only
};

class Fields;

enum class ChoiceCount { kOne, kSeveral };  // whether the protocol has a form for several answers

// Checks the ranges.
GenerationFields read_generation_fields(const Fields& request, ChoiceCount choices);
// The names of what it reads; `n` only where the protocol has it.
std::vector<std::string_view> generation_field_names(ChoiceCount choices);

}  // namespace deepinfer
