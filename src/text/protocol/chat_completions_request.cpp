#include "text/protocol/chat_completions_request.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "text/protocol/call_ids.h"
#include "text/protocol/ignored_fields.h"
#include "text/protocol/known_members.h"
#include "text/protocol/message_content.h"
#include "text/protocol/request_fields.h"
#include "text/protocol/sampling_fields.h"
#include "text/protocol/tool_declarations.h"

namespace deepinfer {
namespace {

std::string index(std::string_view name, size_t i) {
  return std::string(name) + "[" + std::to_string(i) + "]";
}

// ---- messages -----------------------------------------------------------------------------------------------------

class ChatMessages {
 public:
  ChatMessages(const Json& list, const ProtocolOptions& options) : list_(list), options_(options) {}

  std::vector<Message> read() {
    std::vector<Message> messages;
    if (list_.empty()) fail_request("Empty input messages");
    for (size_t i = 0; i < list_.size(); ++i) {
      Message message = read_one(i);
      if (message.role == Role::kSystem && message.content.empty() && message.images.empty()) continue;
      messages.push_back(std::move(message));
    }
    return messages;
  }

  // Some assistant message has calls, no reasoning, and ids that do not say that it was empty.
  bool missing_reasoning() const { return missing_reasoning_; }

 private:
  Message read_one(size_t i) {
    const Fields fields(list_[i], "message");
    const std::string& role = fields.required_string("role");
    const bool developer = role == "developer" && options_.profile == Profile::kExtended;
    constexpr Role roles[] = {Role::kSystem, Role::kUser, Role::kAssistant, Role::kTool, Role::kLatestReminder};
    Message message;
    message.role = developer ? Role::kSystem
                             : roles[Fields::one_of(role, {"system", "user", "assistant", "tool", "latest_reminder"})];
    const std::string place = index(".messages", i);
    switch (message.role) {
      case Role::kSystem:
      case Role::kUser:
        read_content(fields.at("content"), place, message);
        break;
      case Role::kTool:
        message.tool_call_id = fields.required_string("tool_call_id");
        read_content(fields.at("content"), place, message);
        break;
      case Role::kLatestReminder:
        message.content = fields.required_string("content");
        break;
      case Role::kAssistant:
        read_assistant(fields, i, message);
        break;
    }
    return message;
  }

  void read_assistant(const Fields& fields, size_t i, Message& message) {
    const Json* content = fields.find("content");
    const Json* calls = fields.array("tool_calls");
    if (content != nullptr) read_content(*content, index(".messages", i), message);
    if (!message.images.empty()) fail_request("Image in assistant message is not supported");
    if (content == nullptr && calls == nullptr) {
      fail_request("Invalid assistant message: content or tool_calls must be set");
    }
    const std::optional<std::string> reasoning = fields.string("reasoning_content");
    message.reasoning = reasoning.value_or("");
    message.prefix = fields.boolean("prefix").value_or(false);
    if (calls == nullptr) return;
    if (calls->empty()) {
      fail_request(
          "Invalid '" + index("messages", i) +
          ".tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead.");
    }
    bool says_empty = false;
    for (const Json& entry : *calls) {
      const Fields call(entry, "tool call");
      const std::string& id = call.required_string("id");
      Fields::one_of(call.required_string("type"), {"function"});
      const Fields function(call.at("function"), "function");
      message.tool_calls.push_back({id, function.required_string("name"), function.required_string("arguments")});
      says_empty = says_empty || says_empty_thinking(id);
    }
    if (!reasoning && !says_empty) missing_reasoning_ = true;
  }

  static void read_content(const Json& content, const std::string& place, Message& message) {
    if (content.is_string()) {
      message.content = content.get_ref<const std::string&>();
      return;
    }
    if (!content.is_array()) fail_body("content should be a string or a list");
    ContentBuilder builder;
    for (const Json& part : content) read_part(Fields(part, "content part"), place, builder);
    builder.move_to(message);
  }

  static void read_part(const Fields& part, const std::string& place, ContentBuilder& builder) {
    switch (Fields::one_of(part.required_string("type"), {"text", "image_url", "file"})) {
      case 0:
        builder.add_text(part.required_string("text"));
        return;
      case 1: {
        const Fields image(part.at("image_url"), "image_url");
        const std::string link = index(place + ".image_url.url", builder.images()) + ": image_url.url";
        builder.add_image(read_image_url(image.required_string("url"), read_image_detail(image), place, link));
        return;
      }
      default:
        builder.add_image(read_file(part, place));
    }
  }

  static ImageSource read_file(const Fields& part, const std::string& place) {
    const std::optional<std::string> id = part.string("file_id");
    const std::optional<std::string> data = part.string("file_data");
    if (id && data) fail_request(place + ": file cannot have both file_id and file_data");
    if (id && part.string("filename")) {
      fail_request(place + ": file cannot have filename when file_id is present");
    }
    if (id) fail_request(place + ": file_id is not supported. Pass the image as a base64 data url instead.");
    if (!data) fail_request(place + ": file must have a file_id or file_data");
    if (!is_supported_image_type(data_url_media_type(*data))) {
      fail_request(place +
                   ": You have uploaded an unsupported file. Please make sure your file is valid and has one of the "
                   "following formats: webp, png, jpeg, and gif.");
    }
    return {ImageSource::Kind::kDataUrl, *data, ImageDetail::kHigh, place};
  }

  const Json& list_;
  const ProtocolOptions& options_;
  bool missing_reasoning_ = false;
};

// Each call is answered exactly once, directly behind the assistant message, in any order.
void check_calls_and_results(const std::vector<Message>& messages) {
  const std::string unanswered =
      "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'";
  for (size_t i = 0; i < messages.size();) {
    if (messages[i].role == Role::kTool) {
      fail_request("Messages with role 'tool' must be a response to a preceding message with 'tool_calls'");
    }
    if (messages[i].tool_calls.empty()) {
      ++i;
      continue;
    }
    std::unordered_set<std::string_view> open;
    for (const ToolCall& call : messages[i].tool_calls) {
      if (!open.insert(call.id).second) {
        fail_request("Duplicate value for 'tool_call_id' of " + call.id + " in " + index("message", i));
      }
    }
    for (++i; !open.empty(); ++i) {
      if (i == messages.size() || messages[i].role != Role::kTool) {
        fail_request(unanswered + ". (insufficient tool messages following tool_calls message)");
      }
      if (open.erase(messages[i].tool_call_id) == 0) {
        fail_request(unanswered +
                     ", The following tool_call_ids did not have response messages: " + messages[i].tool_call_id);
      }
    }
  }
}

// ---- the other fields ---------------------------------------------------------------------------------------------

std::vector<DeclaredTool> read_tools(const Fields& request) {
  std::vector<DeclaredTool> tools;
  const Json* list = request.array("tools");
  if (list == nullptr) return tools;
  for (size_t i = 0; i < list->size(); ++i) {
    const Fields tool((*list)[i], "tool");
    Fields::one_of(tool.required_string("type"), {"function"});
    tools.push_back(read_function(Fields(tool.at("function"), "function"), index("tools", i) + ".function"));
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

  ChatMessages messages(as_array(request.at("messages"), "messages"), options);
  out.conversation.messages = messages.read();
  check_calls_and_results(out.conversation.messages);
  if (options.profile == Profile::kExtended) read_continuation(request, out.conversation.messages);
  if (options.reject_missing_reasoning && out.conversation.thinking && messages.missing_reasoning()) {
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
