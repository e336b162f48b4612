#include "text/protocol/generation_fields.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "text/protocol/request_fields.h"

namespace deepinfer {
namespace {

constexpr size_t kMostStopTokens = 128;
constexpr double kLongestTimeout = 86400;  // seconds
constexpr size_t kLongestSalt = 256;

std::vector<std::pair<int32_t, float>> read_logit_bias(const Fields& request) {
  std::vector<std::pair<int32_t, float>> list;
  const Json* bias = request.find("logit_bias");
  if (bias == nullptr) return list;
  if (!bias->is_object()) fail_body("logit_bias: expected an object of token ids and numbers");
  for (const auto& [key, value] : bias->items()) {
    int32_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0)
      fail_body("logit_bias: `" + key.substr(0, 40) + "` is no token id");
    const float number = value.is_number() ? value.get<float>() : std::numeric_limits<float>::quiet_NaN();
    if (!(number >= -100 && number <= 100))
      fail_request("Invalid logit_bias value of token " + key + ", the valid range is [-100, 100]");
    list.emplace_back(token, number);
  }
  return list;
}

std::vector<int32_t> read_stop_tokens(const Fields& request) {
  std::vector<int32_t> tokens;
  const Json* list = request.array("stop_token_ids");
  if (list == nullptr) return tokens;
  if (list->size() > kMostStopTokens)
    fail_request("stop_token_ids array too long: " + std::to_string(list->size()) + ", at most " +
                 std::to_string(kMostStopTokens));
  for (const Json& one : *list) {
    if (!one.is_number_unsigned() || one.get<uint64_t>() > std::numeric_limits<int32_t>::max())
      fail_body("stop_token_ids: expected a list of token ids");
    tokens.push_back(one.get<int32_t>());
  }
  return tokens;
}

std::chrono::milliseconds read_timeout(const Fields& request) {
  const Json* value = request.find("timeout");
  if (value == nullptr) return {};
  const double seconds = value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (!(seconds > 0 && seconds <= kLongestTimeout))
    fail_request("Invalid timeout value, the valid range of timeout is (0, 86400] seconds");
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(seconds * 1000)));
}

}  // namespace

GenerationFields read_generation_fields(const Fields& request, ChoiceCount choices) {
  GenerationFields out;
  if (choices == ChoiceCount::kSeveral)
    out.n = static_cast<uint32_t>(request.integer_in("n", 1, kMostChoices).value_or(out.n));
  out.presence_penalty = request.number_in("presence_penalty", -2, 2, "[-2, 2]").value_or(0);
  out.frequency_penalty = request.number_in("frequency_penalty", -2, 2, "[-2, 2]").value_or(0);
  out.repetition_penalty = request.number_in("repetition_penalty", 0.001f, 1000, "[0.001, 1000]").value_or(1);
  out.min_p = request.number_in("min_p", 0, 1, "[0, 1]").value_or(0);
  const int64_t top_k = request.integer_in("top_k", -1, std::numeric_limits<int32_t>::max()).value_or(0);
  out.top_k = top_k < 0 ? 0 : static_cast<int32_t>(top_k);
  out.logit_bias = read_logit_bias(request);
  out.stop_token_ids = read_stop_tokens(request);
  out.ignore_eos = request.boolean("ignore_eos").value_or(false);
  out.min_tokens = request.u32("min_tokens").value_or(0);
  if (choices == ChoiceCount::kSeveral) {
    if (const auto prompt = request.integer_in("prompt_logprobs", 0, 20)) {
      if (request.boolean("stream").value_or(false))
        fail_request("prompt_logprobs should not be used with stream = true");
      out.prompt_logprobs = static_cast<int32_t>(*prompt);
    }
  }
  out.priority = static_cast<int32_t>(request.integer_in("priority", -kHighestPriority, kHighestPriority).value_or(0));
  out.timeout = read_timeout(request);
  out.cache_salt = request.string("cache_salt").value_or("");
  if (out.cache_salt.size() > kLongestSalt)
    fail_request("cache_salt has " + std::to_string(out.cache_salt.size()) + " bytes, at most " +
                 std::to_string(kLongestSalt));
  return out;
}

std::vector<std::string_view> generation_field_names(ChoiceCount choices) {
  std::vector<std::string_view> names = {
      "presence_penalty", "frequency_penalty", "repetition_penalty", "min_p",    "top_k",   "logit_bias",
      "stop_token_ids",   "ignore_eos",        "min_tokens",         "priority", "timeout", "cache_salt"};
  if (choices == ChoiceCount::kSeveral) names.insert(names.end(), {"n", "prompt_logprobs"});
  return names;
}

}  // namespace deepinfer
