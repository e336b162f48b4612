#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/generator.h"

namespace deepinfer {
namespace {

constexpr float kMost = std::numeric_limits<float>::max();

template <typename T>  // a float is shown as it was written
Status check(std::string_view field, T value, bool allowed, std::string_view range) {
  if (allowed) return {};
  return invalid_argument(fmt::format("{} is {}; allowed: {}", field, value, range));
}

Status check_token(std::string_view field, int32_t token, int32_t vocabulary) {
  if (token >= 0 && token < vocabulary) return {};
  return invalid_argument(fmt::format("{} holds token {}; allowed: 0 to {}", field, token, vocabulary - 1));
}

}  // namespace

Status validate(const GenerationParams& p, int32_t vocabulary) {
  // Written so that a NaN fails every check.
  DI_RETURN_IF_ERROR(
      check("temperature", p.temperature, p.temperature >= 0 && p.temperature <= kMost, "numbers from 0"));
  DI_RETURN_IF_ERROR(check("top_p", p.top_p, p.top_p > 0 && p.top_p <= 1, "above 0, to 1"));
  DI_RETURN_IF_ERROR(check("min_p", p.min_p, p.min_p >= 0 && p.min_p <= 1, "0 to 1"));
  DI_RETURN_IF_ERROR(check("top_k", p.top_k, p.top_k >= 0, "integers from 0 (0: off)"));
  DI_RETURN_IF_ERROR(
      check("repetition_penalty", p.repetition_penalty,
            p.repetition_penalty >= kLeastRepetitionPenalty && p.repetition_penalty <= kMostRepetitionPenalty,
            fmt::format("{} to {}", kLeastRepetitionPenalty, kMostRepetitionPenalty)));
  DI_RETURN_IF_ERROR(
      check("presence_penalty", p.presence_penalty, p.presence_penalty >= -2 && p.presence_penalty <= 2, "-2 to 2"));
  DI_RETURN_IF_ERROR(check("frequency_penalty", p.frequency_penalty,
                           p.frequency_penalty >= -2 && p.frequency_penalty <= 2, "-2 to 2"));
  DI_RETURN_IF_ERROR(
      check("max_tokens", p.max_tokens, p.max_tokens >= 0, "integers from 0 (0: up to the context length)"));
  DI_RETURN_IF_ERROR(
      check("logprobs", p.logprobs, p.logprobs >= -1 && p.logprobs <= vocabulary, fmt::format("-1 to {}", vocabulary)));
  DI_RETURN_IF_ERROR(check("draft_tokens", p.draft_tokens, p.draft_tokens >= -1, "-1, or 0 up to the model's number"));
  for (const int32_t token : p.stop_tokens) DI_RETURN_IF_ERROR(check_token("stop_tokens", token, vocabulary));
  std::vector<int32_t> biased;
  for (const LogitBias& entry : p.logit_bias) {
    DI_RETURN_IF_ERROR(check_token("logit_bias", entry.token, vocabulary));
    DI_RETURN_IF_ERROR(check(fmt::format("logit_bias of token {}", entry.token), entry.bias,
                             std::abs(entry.bias) <= kMostLogitBias,
                             fmt::format("{} to {}", -kMostLogitBias, kMostLogitBias)));
    biased.push_back(entry.token);
  }
  std::sort(biased.begin(), biased.end());
  if (const auto twice = std::adjacent_find(biased.begin(), biased.end()); twice != biased.end())
    return invalid_argument(fmt::format("logit_bias holds token {} twice; allowed: once", *twice));
  return {};
}

}  // namespace deepinfer
