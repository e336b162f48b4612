#include "text/protocol/completions_request.h"

#include <limits>

#include "text/protocol/ignored_fields.h"
#include "text/protocol/known_members.h"
#include "text/protocol/request_fields.h"
#include "text/protocol/sampling_fields.h"

namespace deepinfer {
namespace {

std::vector<int32_t> read_ids(const Json& list) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const Json& one : list) {
    if (!one.is_number_unsigned() || one.get<uint64_t>() > std::numeric_limits<int32_t>::max())
      fail_body("prompt: expected a string, token ids, or a list of strings or of lists of token ids");
    ids.push_back(one.get<int32_t>());
  }
  return ids;
}

void read_prompts(const Json& prompt, CompletionsRequest& out) {
  if (prompt.is_string()) {
    out.prompts.emplace_back(prompt.get<std::string>());
    return;
  }
  if (!prompt.is_array() || prompt.empty()) fail_body("prompt: expected a string or a list that is not empty");
  if (!prompt[0].is_string() && !prompt[0].is_array()) {
    out.prompts.emplace_back(read_ids(prompt));
    return;
  }
  if (prompt.size() > kMostAnswers)
    fail_request("prompt: a list of " + std::to_string(prompt.size()) + " prompts, at most " +
                 std::to_string(kMostAnswers));
  for (const Json& one : prompt) {
    if (one.is_string()) {
      out.prompts.emplace_back(one.get<std::string>());
    } else {
      const Json& ids = as_array(one, "prompt");
      if (ids.empty()) fail_body("prompt: a list of token ids is empty");
      out.prompts.emplace_back(read_ids(ids));
    }
  }
}

void read_suffix(const Fields& request, CompletionsRequest& out) {
  out.suffix = request.string("suffix").value_or("");
  if (out.suffix.empty()) return;
  for (const auto& prompt : out.prompts)
    if (!std::holds_alternative<std::string>(prompt)) fail_request("suffix needs `prompt` as text");
  if (out.echo) fail_request("suffix should not be used with echo");
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

void check_answers(const Fields& request, const CompletionsRequest& out) {
  if (const auto best = request.u32("best_of"); best && *best != request.u32("n").value_or(1))
    fail_request("Invalid best_of value (only best_of = n is supported)");
  if (const size_t answers = out.prompts.size() * out.generation.n; answers > kMostAnswers)
    fail_request("prompt and n ask for " + std::to_string(answers) + " answers, at most " +
                 std::to_string(kMostAnswers));
  if (out.generation.prompt_logprobs && out.prompts.size() > 1)
    fail_request("prompt_logprobs should not be used with a list of prompts");
}

CompletionsRequest parse(const Json& body, const ProtocolOptions& options) {
  const Fields request(body, "request");
  CompletionsRequest out;
  out.model = read_model(request, options);
  read_prompts(request.at("prompt"), out);
  out.allow_special = request.boolean("allow_special").value_or(false);
  out.generation = read_generation_fields(request, ChoiceCount::kSeveral);
  check_answers(request, out);
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
  read_suffix(request, out);
  out.stream = request.boolean("stream").value_or(false);
  if (const std::optional<Fields> stream = request.object("stream_options", "stream_options")) {
    if (!out.stream) fail_request("stream_options should be set along with stream = true");
    out.include_usage = stream->boolean("include_usage").value_or(false);
  }
  add_ignored_fields(body,
                     {"model", "prompt", "allow_special", "best_of", "echo", "suffix", "temperature", "top_p",
                      "max_tokens", "seed", "logprobs", "stop", "stream", "stream_options"},
                     generation_field_names(ChoiceCount::kSeveral), out.ignored);
  add_unknown_members(body, kCompletionsMembers, out.ignored);
  return out;
}

}  // namespace

RequestOr<CompletionsRequest> parse_completions(std::string_view body, const ProtocolOptions& options) {
  return parse_body<CompletionsRequest>(body, [&](const Json& json) { return parse(json, options); });
}

}  // namespace deepinfer
