#include "text/protocol/responses_request.h"

#include <algorithm>
#include <utility>

#include "text/protocol/ignored_fields.h"
#include "text/protocol/known_members.h"
#include "text/protocol/message_content.h"
#include "text/protocol/request_fields.h"
#include "text/protocol/responses_items.h"
#include "text/protocol/responses_tools.h"
#include "text/protocol/sampling_fields.h"

namespace deepinfer {
namespace {

Json or_null(const Json* value) {
  return value == nullptr ? Json(nullptr) : *value;
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
    const size_t type =
        Fields::one_of(fields.required_string("type"), {"function", "web_search", "web_search_2025_08_26", "custom"});
    // Server tools are never shown, so nothing can be forced.
    if (type == 1 || type == 2) return {};
    return {ToolChoice::kRequired, fields.required_string("name")};
  }
  fail_body("expected one of `none`, `auto`, `required` or a tool choice object");
}

// Fills response format and constraint; returns the `text` object that the answer repeats.
Json read_text(const Fields& request, InferenceRequest& out) {
  Json echo = Json::object();
  echo["format"]["type"] = "text";
  echo["verbosity"] = nullptr;
  const std::optional<Fields> text = request.object("text", "text");
  if (!text) return echo;
  echo["verbosity"] = or_null(text->find("verbosity"));
  if (const std::optional<std::string> verbosity = text->string("verbosity")) {
    Fields::one_of(*verbosity, {"low", "medium", "high"});
  }
  if (!text->has("format")) return echo;
  const Fields format(text->at("format"), "text.format");
  ResponseFormat& target = out.conversation.response_format;
  const size_t type = Fields::one_of(format.required_string("type"), {"text", "json_schema", "json_object"});
  echo["format"]["type"] = format.required_string("type");
  if (type == 2) {
    target.kind = ResponseFormat::Kind::kJsonObject;
    out.constraint = OutputConstraint{OutputConstraint::Kind::kJson, ""};
  } else if (type == 1) {
    const Json& schema = format.at("schema");
    echo["format"]["name"] = format.required_string("name");
    echo["format"]["schema"] = schema;
    format.string("description");
    echo["format"]["description"] = or_null(format.find("description"));
    echo["format"]["strict"] = or_null(format.find("strict"));
    const Json checked = check_response_schema(schema, format.boolean("strict").value_or(false));
    target = {ResponseFormat::Kind::kJsonSchema, dump_python(schema)};
    out.constraint = OutputConstraint{OutputConstraint::Kind::kJson, dump_compact(checked)};
  }
  return echo;
}

Json read_reasoning(const Fields& request, const ProtocolOptions& options, Conversation& conversation) {
  const std::optional<Fields> reasoning = request.object("reasoning", "reasoning");
  const Json* effort = reasoning ? reasoning->find("effort") : nullptr;
  apply_thinking(ThinkingSwitch::kDefault, effort, options, conversation);
  Json echo = Json::object();
  echo["effort"] = or_null(effort);
  echo["summary"] = nullptr;
  if (reasoning) {
    if (const std::optional<std::string> summary = reasoning->string("summary")) {
      Fields::one_of(*summary, {"auto", "concise", "detailed"});
      echo["summary"] = *summary;
    }
  }
  return echo;
}

// Messages and the tools that tool searches brought.
ResponsesItems read_input(const Fields& request, const ProtocolOptions& options, ResponsesRequest& out) {
  const std::optional<std::string> instructions = request.string("instructions");
  const Json* input = request.find("input");
  if (input == nullptr && !instructions) fail_request("Either input or instructions must be provided");
  ResponsesItems items;
  if (input != nullptr && input->is_string()) {
    items.messages.push_back({.role = Role::kUser, .content = input->get_ref<const std::string&>()});
  } else if (input != nullptr) {
    if (!input->is_array()) fail_body("input should be a string or a list of input items");
    if (input->empty()) fail_request("Input items array must not be empty");
    items = read_responses_items(*input, options, out);
  }
  if (instructions && !instructions->empty()) {
    items.messages.insert(items.messages.begin(), {.role = Role::kSystem, .content = *instructions});
  }
  return items;
}

ResponsesRequest parse(const Json& body, const ProtocolOptions& options) {
  const Fields request(body, "request");
  ResponsesRequest out;
  InferenceRequest& inference = out.inference;
  Conversation& conversation = inference.conversation;
  inference.model = read_model(request, options);

  Json& echo = out.echo;
  echo["reasoning"] = read_reasoning(request, options, conversation);
  echo["text"] = read_text(request, inference);
  apply_temperature_and_top_p(request, options.profile, inference);
  apply_max_tokens(request.u32("max_output_tokens"), TooManyTokens::kRefuse, options, inference);
  apply_top_logprobs(request, inference);
  inference.logprobs = inference.top_logprobs > 0;
  inference.stream = request.boolean("stream").value_or(false);
  inference.include_usage = true;

  ResponsesItems items = read_input(request, options, out);
  conversation.messages = std::move(items.messages);

  ResponsesTools tools;
  if (const Json* list = request.array("tools")) tools = read_responses_tools(*list, "tools", options, out);
  std::vector<DeclaredTool> declared = std::move(tools.declared);
  check_strictness(declared, conversation.response_format);
  for (DeclaredTool& tool : items.late_tools) declared.push_back(std::move(tool));
  check_unique_names(declared);
  apply_tools(std::move(declared), read_tool_choice(request), options.profile, inference);
  request.boolean("parallel_tool_calls");

  if (conversation.response_format.kind == ResponseFormat::Kind::kJsonObject &&
      std::none_of(conversation.messages.begin(), conversation.messages.end(),
                   [](const Message& message) { return mentions_json(message.content); })) {
    fail_request(
        "Response input messages must contain the word 'json' in some form to use 'text.format' of type "
        "'json_object'.");
  }

  request.string("user");
  for (const char* key : {"instructions", "max_output_tokens", "user"}) echo[key] = or_null(request.find(key));
  const auto given = [&](const char* key, Json otherwise) {
    const Json* value = request.find(key);
    echo[key] = value == nullptr ? std::move(otherwise) : *value;
  };
  given("temperature", 1.0);
  given("top_p", 1.0);
  given("top_logprobs", 0);
  given("tool_choice", "auto");
  echo["tools"] = std::move(tools.echo);

  std::vector<std::string_view> more;
  if (options.profile == Profile::kExtended) {
    inference.generation = read_generation_fields(request, ChoiceCount::kOne);
    inference.seed = read_seed(request);
    more = generation_field_names(ChoiceCount::kOne);
    more.push_back("seed");
  }
  add_ignored_fields(body,
                     {"model", "input", "instructions", "reasoning", "tools", "tool_choice", "text",
                      "max_output_tokens", "temperature", "top_p", "top_logprobs", "stream", "user"},
                     more, inference.ignored);
  add_unknown_members(body, kResponsesMembers, inference.ignored);
  return out;
}

}  // namespace

RequestOr<ResponsesRequest> parse_responses(std::string_view body, const ProtocolOptions& options) {
  return parse_body<ResponsesRequest>(body, [&](const Json& json) { return parse(json, options); });
}

}  // namespace deepinfer
