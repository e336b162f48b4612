#include "replay/answer_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

namespace deepinfer::cli {
namespace {

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

std::optional<std::string> in_token(std::string_view what, const GeneratedToken& was, const GeneratedToken& is,
                                    bool logprobs) {
  if (was.token != is.token) return fmt::format("{} is {}, the log has {}", what, is.token, was.token);
  if (!logprobs) return std::nullopt;
  if (!same_bits(was.logprob, is.logprob))
    return fmt::format("the log-probability of {} is {:a}, the log has {:a}", what, is.logprob, was.logprob);
  const auto same = [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.token == b.token && same_bits(a.logprob, b.logprob);
  };
  if (!std::equal(was.top_logprobs.begin(), was.top_logprobs.end(), is.top_logprobs.begin(), is.top_logprobs.end(),
                  same))
    return fmt::format("the most likely tokens for {} are others", what);
  return std::nullopt;
}

std::optional<std::string> in_tokens(std::string_view what, const std::vector<GeneratedToken>& was,
                                     const std::vector<GeneratedToken>& is, bool logprobs) {
  for (size_t i = 0; i < std::min(was.size(), is.size()); ++i) {
    if (auto found = in_token(fmt::format("token {} of the {}", i, what), was[i], is[i], logprobs)) return found;
  }
  if (was.size() != is.size()) return fmt::format("the {} has {} tokens, the log has {}", what, is.size(), was.size());
  return std::nullopt;
}

}  // namespace

bool is_beginning(const LoggedAnswer& logged) {
  return logged.reason == EndReason::kCancelled || logged.reason == EndReason::kDeadline;
}

bool is_repeatable(const EngineRequest& request) {
  return request.params.speculative_sampling == SpeculativeSampling::kExact;
}

std::optional<std::string> first_difference(const LoggedRequest& logged, const ReplayedAnswer& answer) {
  const LoggedAnswer& was = *logged.answer;
  const EngineRequest& asked = logged.request;
  if (auto found = in_tokens("prompt", was.prompt_logprobs, answer.prompt_logprobs, asked.prompt_logprobs >= 0))
    return found;
  if (auto found = in_tokens("answer", was.tokens, answer.tokens, asked.params.logprobs >= 0)) return found;
  if (!is_beginning(was) && was.reason != answer.summary.reason)
    return fmt::format("it ended with `{}`{}, the log has `{}`", to_string(answer.summary.reason),
                       answer.summary.failure.ok() ? "" : " (" + answer.summary.failure.message() + ")",
                       to_string(was.reason));
  return std::nullopt;
}

}  // namespace deepinfer::cli
