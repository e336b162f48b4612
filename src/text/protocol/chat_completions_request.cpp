#include "text/protocol/chat_completions_request.h"

#include <algorithm>
#include <utility>

#include "text/protocol/chat_messages.h"
#include "text/protocol/ignored_fields.h"
#include "text/protocol/known_members.h"
#include "text/protocol/message_content.h"
#include "text/protocol/request_fields.h"
#include "text/protocol/sampling_fields.h"
#include "text/protocol/tool_declarations.h"

namespace deepinfer {
namespace {

std::vector<DeclaredTool> read_tools(const Fields& request) {
  std::vector<DeclaredTool> tools;
  const Json* list = request.array("tools");
  if (list == nullptr) return tools;
  for (size_t i = 0; i < list->size(); ++i) {
    const Fields tool((*list)[i], "tool");
    Fields::one_of(tool.required_string("type"), {"function"});
    tools.push_back(
        read_function(Fields(tool.at("function"), "function"), "tools[" + std::to_string(i) + "].function"));
  }
  check_unique_names(tools);
  return tools;
}

ChosenTools read_tool_choice(const Fields& request) {
  const Json* choice = request.find("tool_choice");
  if (choice == nullptr) return {};
  if (choice->is_string()) {
    const std::string& name = choice->get_ref<const std::string&>();
    if (name == "none") return {ToolChoice::kNone, {}};
    if (name == "auto") return {ToolChoice::kAuto, {}};
    if (name == "required") return {ToolChoice::kRequired, {}};
  } else if (choice->is_object()) {
    const Fields fields(*choice, "tool_choice");
    Fields::one_of(fields.required_string("type"), {"function"});
    return {ToolChoice::kRequired, Fields(fields.at("function"), "function").required_string("name")};
  }
  fail_body("expected one of `none`, `auto`, `required` or a tool");
}

void read_response_format(const Fields& request, InferenceRequest& out) {
  const std::optional<Fields> format = request.object("response_format", "response_format");
  if (!format) return;
  ResponseFormat& target = out.conversation.response_format;
  switch (Fields::one_of(format->required_string("type"), {"json_object", "json_schema", "regex", "text"})) {
    case 0:
      target.kind = ResponseFormat::Kind::kJsonObject;
      out.constraint = OutputConstraint{OutputConstraint::Kind::kJson, ""};
      return;
    case 1: {
      const Fields schema(format->at("json_schema"), "json_schema");
      schema.string("name");
      schema.string("description");
      const Json& value = schema.at("schema");
      const Json checked = check_response_schema(value, schema.boolean("strict").value_or(false));
      target = {ResponseFormat::Kind::kJsonSchema, dump_python(value)};
      out.constraint = OutputConstraint{OutputConstraint::Kind::kJson, dump_compact(checked)};
      return;
    }
    case 2:
      target.kind = ResponseFormat::Kind::kRegex;
      out.constraint = OutputConstraint{OutputConstraint::Kind::kRegex, format->required_string("regex")};
      return;
    default:
      return;
  }
}

void read_stop(const Fields& request, InferenceRequest& out) {
  const Json* stop = request.find("stop");
  if (stop == nullptr) return;
  if (stop->is_string()) {
    out.stop.push_back(stop->get_ref<const std::string&>());
    if (out.stop[0].empty()) {
      fail_request(
          "Invalid 'stop': empty string. Expected a string with minimum length 1, but got an empty string instead.");
    }
    return;
  }
  if (!stop->is_array()) fail_body("expected a string or a list");
  for (const Json& one : *stop) out.stop.push_back(as_string(one, "stop"));
  check_stop_list(out.stop);
}

void read_sampling(const Fields& request, const ProtocolOptions& options, InferenceRequest& out) {
  const bool extended = options.profile == Profile::kExtended;
  apply_temperature_and_top_p(request, options.profile, out);
  std::optional<uint32_t> max_tokens = request.u32("max_tokens");
  if (!max_tokens && extended) max_tokens = request.u32("max_completion_tokens");
  apply_max_tokens(max_tokens, TooManyTokens::kRefuse, options, out);
  if (extended) {
    out.generation = read_generation_fields(request, ChoiceCount::kSeveral);
  } else {
    if (const std::optional<uint32_t> n = request.u32("n"); n && *n != 1) {
      fail_request("Invalid n value (currently only n = 1 is supported)");
    }
    request.number_in("frequency_penalty", -2, 2, "[-2, 2]");
    request.number_in("presence_penalty", -2, 2, "[-2, 2]");
  }
  out.seed = read_seed(request);
  read_stop(request, out);
  out.logprobs = request.boolean("logprobs").value_or(false);
  apply_top_logprobs(request, out);
  if (request.find("top_logprobs") != nullptr && !out.logprobs) {
    fail_request("Invalid top_logprobs and logprobs value, logprobs must be set to true if top_logprobs is used.");
  }
  out.stream = request.boolean("stream").value_or(false);
  if (const std::optional<Fields> stream = request.object("stream_options", "stream_options")) {
    if (!out.stream) fail_request("stream_options should be set along with stream = true");
    out.include_usage = stream->boolean("include_usage").value_or(false);
  }
}

// `continue_final_message` of other servers is our `prefix`; their `add_generation_prompt` can only be its opposite.
void read_continuation(const Fields& request, std::vector<Message>& messages) {
  const bool continues = request.boolean("continue_final_message").value_or(false);
  if (request.boolean("add_generation_prompt").value_or(!continues) == continues) {
    fail_request("add_generation_prompt must be the opposite of continue_final_message");
  }
  if (!continues) return;
  if (messages.empty() || messages.back().role != Role::kAssistant || !messages.back().tool_calls.empty()) {
    fail_request("continue_final_message: the last message must be an assistant message without tool_calls");
  }
  messages.back().prefix = true;
}

void check_prefix(const InferenceRequest& request) {
  const std::vector<Message>& messages = request.conversation.messages;
  for (size_t i = 0; i + 1 < messages.size(); ++i) {
    if (messages[i].prefix) {
      fail_request(
          "Invalid completion message: prefix set true with message which is not final message or message role is not "
          "assistant");
    }
  }
  if (messages.empty() || !messages.back().prefix) return;
  if (!request.conversation.tools.empty()) fail_request("Function call should not be used with prefix");
  if (request.conversation.response_format.kind == ResponseFormat::Kind::kJsonObject) {
    fail_request("response_format json_object should not be used with prefix");
  }
}

// chat_template_kwargs of other servers: the switch of thinking under its two names, and nothing else.
ThinkingSwitch read_template_arguments(const Fields& request) {
  const Json* arguments = request.find("chat_template_kwargs");
  if (arguments == nullptr) return ThinkingSwitch::kDefault;
  const Fields fields(*arguments, "chat_template_kwargs");
  ThinkingSwitch thinking = ThinkingSwitch::kDefault;
  for (const auto& [key, value] : arguments->items()) {
    if (key != "thinking" && key != "enable_thinking")
      fail_request("chat_template_kwargs: unknown key `" + key.substr(0, 100) +
                   "`, allowed are `thinking` and `enable_thinking`");
    if (const std::optional<bool> on = fields.boolean(key)) thinking = *on ? ThinkingSwitch::kOn : ThinkingSwitch::kOff;
  }
  return thinking;
}

// What the request names and this profile does not honour.
void note_ignored(const Json& body, const ProtocolOptions& options, InferenceRequest& out) {
  std::vector<std::string_view> more;
  if (options.profile == Profile::kExtended) {
    more = generation_field_names(ChoiceCount::kSeveral);
    more.insert(more.end(), {"chat_template_kwargs", "continue_final_message", "add_generation_prompt"});
    if (!body.contains("max_tokens") || body["max_tokens"].is_null()) more.push_back("max_completion_tokens");
  } else {
    more.push_back("n");
  }
  add_ignored_fields(
      body,
      {"model", "messages", "thinking", "reasoning_effort", "tools", "tool_choice", "response_format", "temperature",
       "top_p", "max_tokens", "seed", "stop", "logprobs", "top_logprobs", "stream", "stream_options"},
      more, out.ignored);
  add_unknown_members(body, kChatCompletionsMembers, out.ignored);
}

InferenceRequest parse(const Json& body, const ProtocolOptions& options) {
  const Fields request(body, "request");
  InferenceRequest out;
  out.model = read_model(request, options);
  ThinkingSwitch thinking = read_thinking(request);
  const ThinkingSwitch template_thinking = read_template_arguments(request);
  if (options.profile == Profile::kExtended && template_thinking != ThinkingSwitch::kDefault) {
    if (thinking != ThinkingSwitch::kDefault && thinking != template_thinking)
      fail_request("chat_template_kwargs and thinking contradict each other");
    thinking = template_thinking;
  }
  apply_thinking(thinking, request.find("reasoning_effort"), options, out.conversation);

  ChatMessages messages = read_chat_messages(as_array(request.at("messages"), "messages"), options);
  out.conversation.messages = std::move(messages.list);
  if (options.profile == Profile::kExtended) read_continuation(request, out.conversation.messages);
  if (options.reject_missing_reasoning && out.conversation.thinking && messages.missing_reasoning) {
    fail_request("The `reasoning_content` in the thinking mode must be passed back to the API.");
  }

  read_sampling(request, options, out);
  read_response_format(request, out);
  std::vector<DeclaredTool> tools = read_tools(request);
  check_strictness(tools, out.conversation.response_format);
  const ChosenTools chosen = read_tool_choice(request);
  request.boolean("parallel_tool_calls");
  apply_tools(std::move(tools), chosen, options.profile, out);
  check_prefix(out);
  if (out.conversation.response_format.kind == ResponseFormat::Kind::kJsonObject &&
      std::none_of(out.conversation.messages.begin(), out.conversation.messages.end(),
                   [](const Message& message) { return mentions_json(message.content); })) {
    fail_request("Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'.");
  }
  note_ignored(body, options, out);
  return out;
}

}  // namespace

RequestOr<InferenceRequest> parse_chat_completions(std::string_view body, const ProtocolOptions& options) {
  return parse_body<InferenceRequest>(body, [&](const Json& json) { return parse(json, options); });
}

}  // namespace deepinfer
