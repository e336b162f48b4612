#include "text/protocol/messages_request.h"

#include <algorithm>
#include <utility>

#include "text/protocol/ignored_fields.h"
#include "text/protocol/known_members.h"
#include "text/protocol/message_content.h"
#include "text/protocol/messages_blocks.h"
#include "text/protocol/request_fields.h"
#include "text/protocol/sampling_fields.h"
#include "text/protocol/tool_declarations.h"

namespace deepinfer {
namespace {

// The system prompt; an empty string still makes a system turn, a list without any text does not.
std::optional<Message> read_system(const Fields& request) {
  const Json* system = request.find("system");
  if (system == nullptr) return std::nullopt;
  Message message{.role = Role::kSystem, .content = {}};
  if (system->is_string()) {
    message.content = system->get_ref<const std::string&>();
    return message;
  }
  if (!system->is_array()) fail_body("expected a string or a list");
  ContentBuilder builder;
  bool any = false;
  for (const Json& entry : *system) {
    const Fields block(entry, "system block");
    Fields::one_of(block.required_string("type"), {"text"});
    const std::string& text = block.required_string("text");
    if (text.starts_with("x-anthropic-billing-header")) continue;  // a client's note to the vendor's own servers
    builder.add_text(text);
    any = true;
  }
  builder.move_to(message);
  if (!any) return std::nullopt;
  return message;
}

std::vector<DeclaredTool> read_tools(const Fields& request, const ProtocolOptions& options) {
  std::vector<DeclaredTool> tools;
  const Json* list = request.array("tools");
  if (list == nullptr) return tools;
  for (size_t i = 0; i < list->size(); ++i) {
    const Fields fields((*list)[i], "tool");
    const std::string place = "tools[" + std::to_string(i) + "]";
    if (const std::optional<std::string> type = fields.string("type")) {
      const bool dropped =
          type->starts_with("web_search") && options.messages_web_search == ProtocolOptions::WebSearch::kDrop;
      if (!dropped) fail_request(place + ": server tools are not supported");
      continue;
    }
    DeclaredTool tool;
    tool.name = fields.required_string("name");
    tool.description = fields.string("description");
    tool.late = fields.boolean("defer_loading").value_or(false);
    check_tool_name(tool.name, place + ".name");
    const Json* schema = fields.find("input_schema");
    tool.parameters = check_parameters(tool.name, schema == nullptr ? Json(nullptr) : *schema, false);
    tools.push_back(std::move(tool));
  }
  check_unique_names(tools);
  if (!tools.empty() && std::all_of(tools.begin(), tools.end(), [](const DeclaredTool& t) { return t.late; })) {
    fail_request("tools: at least one tool must have defer_loading=false. All tools cannot be deferred.");
  }
  return tools;
}

ChosenTools read_tool_choice(const Fields& request) {
  const std::optional<Fields> choice = request.object("tool_choice", "tool_choice");
  if (!choice) return {};
  choice->boolean("disable_parallel_tool_use");
  switch (Fields::one_of(choice->required_string("type"), {"auto", "any", "tool", "none"})) {
    case 1:  // in the prompt as "auto"
      return {.choice = ToolChoice::kAuto, .name = {}, .some_call = true};
    case 2:
      return {.choice = ToolChoice::kRequired, .name = choice->required_string("name")};
    case 3:
      return {.choice = ToolChoice::kNone, .name = {}};
    default:
      return {};
  }
}

InferenceRequest parse(const Json& body, const ProtocolOptions& options) {
  const Fields request(body, "request");
  InferenceRequest out;
  Conversation& conversation = out.conversation;
  out.model = read_model(request, options);
  const std::optional<Fields> output = request.object("output_config", "output_config");
  apply_thinking(read_thinking(request), output ? output->find("effort") : nullptr, options, conversation);
  apply_temperature_and_top_p(request, options.profile, out);
  apply_max_tokens(request.u32("max_tokens"), TooManyTokens::kLower, options, out);
  if (const Json* stop = request.array("stop_sequences")) {
    for (const Json& one : *stop) out.stop.push_back(as_string(one, "stop_sequences"));
    check_stop_list(out.stop);
  }
  out.stream = request.boolean("stream").value_or(false);
  out.include_usage = true;

  const Json& list = as_array(request.at("messages"), "messages");
  if (list.empty()) fail_request("messages: at least one message is required");
  std::vector<DeclaredTool> tools = read_tools(request, options);
  MessagesConversation read = read_messages_blocks(list, tools, options);
  if (options.reject_missing_reasoning && conversation.thinking && read.missing_thinking) {
    fail_request("The `content[].thinking` in the thinking mode must be passed back to the API.");
  }
  if (std::optional<Message> system = read_system(request)) conversation.messages.push_back(std::move(*system));
  std::move(read.messages.begin(), read.messages.end(), std::back_inserter(conversation.messages));
  apply_tools(std::move(tools), read_tool_choice(request), options.profile, out);

  std::vector<std::string_view> more;
  if (options.profile == Profile::kExtended) {
    out.generation = read_generation_fields(request, ChoiceCount::kOne);
    out.seed = read_seed(request);
    more = generation_field_names(ChoiceCount::kOne);
    more.push_back("seed");
  }
  add_ignored_fields(body,
                     {"model", "messages", "max_tokens", "system", "thinking", "output_config", "tools", "tool_choice",
                      "stop_sequences", "temperature", "top_p", "stream"},
                     more, out.ignored);
  add_unknown_members(body, kMessagesMembers, out.ignored);
  return out;
}

}  // namespace

RequestOr<InferenceRequest> parse_messages(std::string_view body, const ProtocolOptions& options) {
  return parse_body<InferenceRequest>(body, [&](const Json& json) { return parse(json, options); });
}

}  // namespace deepinfer
