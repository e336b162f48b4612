#include "text/protocol/completions_request.h"

#include <charconv>
#include <limits>

#include "text/protocol/request_fields.h"
#include "text/protocol/sampling_fields.h"

namespace deepinfer {
namespace {

std::vector<int32_t> read_ids(const Json& list) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const Json& one : list) {
    if (!one.is_number_unsigned() || one.get<uint64_t>() > std::numeric_limits<int32_t>::max())
      fail_body("prompt: expected a string, a list of one string, or a list of token ids");
    ids.push_back(one.get<int32_t>());
  }
  return ids;
}

void read_prompt(const Json& prompt, CompletionsRequest& out) {
  if (prompt.is_string()) {
    out.prompt = prompt.get<std::string>();
    return;
  }
  if (!prompt.is_array() || prompt.empty()) fail_body("prompt: expected a string or a list that is not empty");
  const bool nested = prompt[0].is_string() || prompt[0].is_array();
  if (nested && prompt.size() > 1) fail_request("prompt: one prompt a request, send each as a request of its own");
  if (nested) {
    read_prompt(prompt[0], out);
  } else {
    out.prompt = read_ids(prompt);
  }
}

float in_range(const Fields& request, std::string_view name, float lowest, float highest, float fallback,
               std::string_view range) {
  const float value = request.number(name).value_or(fallback);
  if (!(value >= lowest && value <= highest))
    fail_request("Invalid " + std::string(name) + " value, the valid range of " + std::string(name) + " is " +
                 std::string(range));
  return value;
}

void read_stop(const Fields& request, CompletionsRequest& out) {
  const Json* stop = request.find("stop");
  if (stop == nullptr) return;
  if (stop->is_string()) {
    out.stop.push_back(stop->get<std::string>());
  } else {
    for (const Json& one : as_array(*stop, "stop")) out.stop.push_back(as_string(one, "stop"));
  }
  check_stop_list(out.stop);
}

void read_logit_bias(const Fields& request, CompletionsRequest& out) {
  const Json* bias = request.find("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) fail_body("logit_bias: expected an object of token ids and numbers");
  for (const auto& [key, value] : bias->items()) {
    int32_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0)
      fail_body("logit_bias: `" + key + "` is no token id");
    const float number = value.is_number() ? value.get<float>() : std::numeric_limits<float>::quiet_NaN();
    if (!(number >= -100 && number <= 100))
      fail_request("Invalid logit_bias value of token " + key + ", the valid range is [-100, 100]");
    out.logit_bias.emplace_back(token, number);
  }
}

void refuse_unsupported(const Fields& request) {
  for (const char* name : {"n", "best_of"})
    if (const auto value = request.u32(name); value && *value != 1)
      fail_request("Invalid " + std::string(name) + " value (only " + name + " = 1 is supported)");
  if (request.boolean("echo").value_or(false)) fail_request("echo = true is not supported");
  if (const auto suffix = request.string("suffix"); suffix && !suffix->empty()) fail_request("suffix is not supported");
}

CompletionsRequest parse(const Json& body, const ProtocolOptions& options) {
  const Fields request(body, "request");
  CompletionsRequest out;
  out.model = read_model(request, options);
  read_prompt(request.at("prompt"), out);
  out.allow_special = request.boolean("allow_special").value_or(false);
  refuse_unsupported(request);
  out.temperature = in_range(request, "temperature", 0, 2, 1, "[0, 2]");
  out.top_p = in_range(request, "top_p", std::numeric_limits<float>::min(), 1, 1, "(0, 1.0]");
  out.presence_penalty = in_range(request, "presence_penalty", -2, 2, 0, "[-2, 2]");
  out.frequency_penalty = in_range(request, "frequency_penalty", -2, 2, 0, "[-2, 2]");
  out.max_tokens = request.u32("max_tokens").value_or(out.max_tokens);
  if (out.max_tokens == 0) fail_request("Invalid max_tokens value, the valid range of max_tokens starts at 1");
  out.seed = request.u64("seed");
  if (const auto logprobs = request.u32("logprobs")) {
    if (*logprobs > 20) fail_request("Invalid logprobs value, the valid range of logprobs is [0, 20]");
    out.logprobs = static_cast<int32_t>(*logprobs);
  }
  read_stop(request, out);
  read_logit_bias(request, out);
  return out;
}

}  // namespace

RequestOr<CompletionsRequest> parse_completions(std::string_view body, const ProtocolOptions& options) {
  return parse_body<CompletionsRequest>(body, [&](const Json& json) { return parse(json, options); });
}

}  // namespace deepinfer
