#include "text/protocol/sampling_fields.h"

#include <algorithm>
#include <utility>

namespace deepinfer {

std::string_view to_string(OutputConstraint::Kind kind) {
  switch (kind) {
    case OutputConstraint::Kind::kToolCall:
      return "tool_call";
    case OutputConstraint::Kind::kToolCallRequired:
      return "tool_call_required";
    case OutputConstraint::Kind::kJson:
      return "json";
    case OutputConstraint::Kind::kRegex:
      return "regex";
  }
  return "unknown";
}

OutputParserOptions InferenceRequest::parser_options(OutputStart start) const {
  OutputParserOptions options;
  options.start = start;
  options.parse_tool_calls = conversation.tools_shown();
  options.json_output = conversation.response_format.kind == ResponseFormat::Kind::kJsonObject;
  options.stop = stop;
  return options;
}

std::string read_model(const Fields& request, const ProtocolOptions& options) {
  const std::string& model = request.required_string("model");
  if (std::find(options.models.begin(), options.models.end(), model) == options.models.end()) {
    std::string names;
    for (const std::string& name : options.models) names.append(names.empty() ? "" : ", ").append(name);
    fail_request("The supported API model names are " + names + ", but you passed " + model + ".");
  }
  return model;
}

ThinkingSwitch read_thinking(const Fields& request) {
  const std::optional<Fields> thinking = request.object("thinking", "thinking");
  if (!thinking) return ThinkingSwitch::kDefault;
  const size_t type = Fields::one_of(thinking->required_string("type"), {"adaptive", "enabled", "disabled"});
  thinking->u64("budget_tokens");  // must be an integer, has no effect
  return type == 2 ? ThinkingSwitch::kOff : ThinkingSwitch::kOn;
}

void apply_thinking(ThinkingSwitch thinking, const Json* effort, const ProtocolOptions& options,
                    Conversation& conversation) {
  bool none = false;
  if (effort != nullptr && effort->is_number_unsigned() && options.profile == Profile::kExtended) {
    const uint64_t number = effort->get<uint64_t>();
    if (number < 1 || number > 100) fail_request("Invalid reasoning_effort value, the valid range is [1, 100]");
    conversation.effort.number = static_cast<int>(number);
  } else if (effort != nullptr) {
    using enum EffortLevel;
    // In the order of the names; "none" is told apart below.
    constexpr EffortLevel levels[] = {kHigh, kLow, kLow, kHigh, kHigh, kXHigh, kMax, kMax};
    const size_t place = Fields::one_of(as_string(*effort, "effort"),
                                        {"none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max"});
    none = place == 0;
    conversation.effort.level = levels[place];
  }
  if (thinking != ThinkingSwitch::kDefault) {
    conversation.thinking = thinking == ThinkingSwitch::kOn;
  } else {
    conversation.thinking = effort != nullptr ? !none : options.default_thinking;
  }
}

void apply_temperature_and_top_p(const Fields& request, Profile profile, InferenceRequest& out) {
  const std::optional<float> temperature = request.number("temperature");
  const std::optional<float> top_p = request.number("top_p");
  if (temperature && !(*temperature >= 0.0f && *temperature <= 2.0f)) {
    fail_request("Invalid temperature value, the valid range of temperature is [0, 2]");
  }
  if (top_p && !(*top_p > 0.0f && *top_p <= 1.0f)) {
    fail_request("Invalid top_p value, the valid range of top_p is (0, 1.0]");
  }
  const bool thinking = out.conversation.thinking;
  if (profile == Profile::kExtended) {
    out.temperature = temperature.value_or(1.0f);
    out.top_p = top_p.value_or(1.0f);
    return;
  }
  out.temperature = thinking ? 1.0f : temperature.value_or(1.0f);
  out.top_p = thinking ? std::max(top_p.value_or(1.0f), 0.95f) : 1.0f;
  if (temperature && *temperature != out.temperature) out.ignored.push_back("temperature");
  if (top_p && *top_p != out.top_p) out.ignored.push_back("top_p");
}

void apply_max_tokens(std::optional<uint32_t> given, TooManyTokens rule, const ProtocolOptions& options,
                      InferenceRequest& out) {
  if (!given) return;
  const uint32_t bound = out.conversation.thinking ? options.max_tokens_thinking : options.max_tokens_chat;
  if (*given < 1 || (*given > bound && rule == TooManyTokens::kRefuse)) {
    fail_request("Invalid max_tokens value, the valid range of max_tokens is [1, " + std::to_string(bound) + "]");
  }
  out.max_tokens = std::min(*given, bound);
}

std::optional<uint64_t> read_seed(const Fields& request) {
  const std::optional<uint64_t> seed = request.u64("seed");
  if (seed && *seed >> 63 != 0) fail_request("Invalid seed value, the valid range of seed is [0, 2^63)");
  return seed;
}

void check_stop_list(const std::vector<std::string>& stop) {
  if (stop.size() > 16) fail_request("Stop string array too long: " + std::to_string(stop.size()));
  for (size_t i = 0; i < stop.size(); ++i) {
    if (stop[i].empty()) {
      fail_request("Invalid 'stop[" + std::to_string(i) +
                   "]': empty string. Expected a string with minimum length 1, but got an empty string instead.");
    }
  }
}

void apply_top_logprobs(const Fields& request, InferenceRequest& out) {
  const std::optional<uint32_t> top = request.u32("top_logprobs");
  if (!top) return;
  if (*top > 20) fail_request("Invalid top_logprobs value, the valid range of top_logprobs is [0, 20].");
  out.top_logprobs = static_cast<int>(*top);
}

}  // namespace deepinfer
