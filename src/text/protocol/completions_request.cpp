#include "text/protocol/completions_request.h"

#include <limits>

#include "text/protocol/ignored_fields.h"
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

void refuse_unsupported(const Fields& request) {
  if (const auto best = request.u32("best_of"); best && *best != request.u32("n").value_or(1))
    fail_request("Invalid best_of value (only best_of = n is supported)");
  if (const auto suffix = request.string("suffix"); suffix && !suffix->empty()) fail_request("suffix is not supported");
}

CompletionsRequest parse(const Json& body, const ProtocolOptions& options) {
  const Fields request(body, "request");
  CompletionsRequest out;
  out.model = read_model(request, options);
  read_prompt(request.at("prompt"), out);
  out.allow_special = request.boolean("allow_special").value_or(false);
  refuse_unsupported(request);
  out.generation = read_generation_fields(request, ChoiceCount::kSeveral);
  out.temperature = request.number_in("temperature", 0, 2, "[0, 2]").value_or(1);
  out.top_p = request.number_in("top_p", std::numeric_limits<float>::min(), 1, "(0, 1.0]").value_or(1);
  out.max_tokens = request.u32("max_tokens").value_or(out.max_tokens);
  if (out.max_tokens == 0) fail_request("Invalid max_tokens value, the valid range of max_tokens starts at 1");
  out.seed = request.u64("seed");
  if (const auto logprobs = request.u32("logprobs")) {
    if (*logprobs > 20) fail_request("Invalid logprobs value, the valid range of logprobs is [0, 20]");
    out.logprobs = static_cast<int32_t>(*logprobs);
  }
  read_stop(request, out);
  out.echo = request.boolean("echo").value_or(false);
  if (out.echo && out.logprobs && out.generation.n > 1) fail_request("echo with logprobs is supported for n = 1 only");
  out.stream = request.boolean("stream").value_or(false);
  if (const std::optional<Fields> stream = request.object("stream_options", "stream_options")) {
    if (!out.stream) fail_request("stream_options should be set along with stream = true");
    out.include_usage = stream->boolean("include_usage").value_or(false);
  }
  add_ignored_fields(body,
                     {"model", "prompt", "allow_special", "best_of", "echo", "suffix", "temperature", "top_p",
                      "max_tokens", "seed", "logprobs", "stop", "stream", "stream_options"},
                     generation_field_names(ChoiceCount::kSeveral), out.ignored);
  return out;
}

}  // namespace

RequestOr<CompletionsRequest> parse_completions(std::string_view body, const ProtocolOptions& options) {
  return parse_body<CompletionsRequest>(body, [&](const Json& json) { return parse(json, options); });
}

}  // namespace deepinfer
