#include "text/protocol/responses_items.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "text/protocol/message_content.h"
#include "text/protocol/responses_tools.h"

namespace deepinfer {
namespace {

std::string input_index(size_t i) {
  return "input[" + std::to_string(i) + "]";
}

void append_joined(std::string& text, bool& any, std::string_view more, std::string_view separator) {
  if (any) text += separator;
  text += more;
  any = true;
}

class ItemReader {
 public:
  ItemReader(const ProtocolOptions& options, ResponsesRequest& request) : options_(options), request_(request) {}

  void read(const Json& value, size_t i) {
    if (!value.is_object()) fail_body("invalid input item");
    const Fields item(value, "input item");
    const std::string type = item.string("type").value_or("message");
    if (type == "message") {
      read_message(item, i);
    } else if (type == "reasoning") {
      read_reasoning(item);
    } else if (type == "function_call") {
      const std::optional<std::string> space = item.string("namespace");
      const std::string& name = item.required_string("name");
      add_call(item, i, space ? namespaced(*space, name) : name, item.required_string("arguments"));
    } else if (type == "custom_tool_call") {
      Json arguments = Json::object();
      arguments["input"] = item.required_string("input");
      add_call(item, i, item.required_string("name"), dump_compact(arguments));
    } else if (type == "tool_search_call") {
      const Json& arguments = item.at("arguments");
      add_call(item, i, "tool_search",
               arguments.is_string() ? arguments.get_ref<const std::string&>() : dump_compact(arguments));
    } else if (type == "function_call_output" || type == "custom_tool_call_output") {
      Message result{.role = Role::kTool, .content = {}};
      read_output(item.at("output"), i, result);
      add_result(item, std::move(result));
    } else if (type == "tool_search_output") {
      read_tool_search_output(item, i);
    }
  }

  ResponsesItems finish() {
    close_results();
    close_assistant();
    if (has_reasoning_) {  // thinking that nothing followed
      Message message{.role = Role::kAssistant, .content = {}};
      message.reasoning = take_reasoning();
      out_.messages.push_back(std::move(message));
    }
    return std::move(out_);
  }

 private:
  void read_message(const Fields& item, size_t i) {
    constexpr Role roles[] = {Role::kUser, Role::kAssistant, Role::kSystem, Role::kSystem};
    const Role role = roles[Fields::one_of(item.required_string("role"), {"user", "assistant", "system", "developer"})];
    Message message{.role = role, .content = {}};
    read_content(item.at("content"), i, "content should be a string or a list of content blocks", message);
    close_results();
    if (role == Role::kAssistant) {
      if (!message.images.empty()) fail_request(input_index(i) + ": Image in assistant message is unsupported");
      add_assistant_text(message.content);
      return;
    }
    close_assistant();
    if (has_reasoning_) {
      Message thought{.role = Role::kAssistant, .content = {}};
      thought.reasoning = take_reasoning();
      out_.messages.push_back(std::move(thought));
    }
    out_.messages.push_back(std::move(message));
  }

  static void read_content(const Json& content, size_t i, std::string_view otherwise, Message& message) {
    if (content.is_string()) {
      message.content = content.get_ref<const std::string&>();
      return;
    }
    if (!content.is_array()) fail_body(otherwise);
    ContentBuilder builder;
    for (size_t j = 0; j < content.size(); ++j) {
      read_part(Fields(content[j], "content part"), i, input_index(i) + ".content[" + std::to_string(j) + "]", builder);
    }
    builder.move_to(message);
  }

  static void read_part(const Fields& part, size_t i, const std::string& place, ContentBuilder& builder) {
    switch (Fields::one_of(part.required_string("type"), {"input_text", "output_text", "input_image", "input_file"})) {
      case 0:
      case 1:
        builder.add_text(part.required_string("text"));
        return;
      case 2: {
        const std::optional<std::string> url = part.string("image_url");
        if (!url && part.string("file_id")) {
          fail_request(place + ": file_id is not supported. Pass the image as a base64 data url instead.");
        }
        if (!url) fail_request(place + ": input_image must have image_url or file_id");
        builder.add_image(read_image_url(*url, read_image_detail(part), input_index(i), place + ": image_url"));
        return;
      }
      default:
        builder.add_text("[Unsupported Document]");
    }
  }

  void read_reasoning(const Fields& item) {
    const Json* content = item.array("content");
    if (content == nullptr) return;
    for (const Json& entry : *content) {
      const Fields part(entry, "reasoning part");
      Fields::one_of(part.required_string("type"), {"reasoning_text"});
      // Thinking opens a new assistant message, unless calls of the present one are still unanswered.
      if (open_calls_.empty()) {
        close_results();
        close_assistant();
      }
      append_joined(reasoning_, has_reasoning_, part.required_string("text"), "\n");
    }
  }

  std::string take_reasoning() {
    has_reasoning_ = false;
    return std::exchange(reasoning_, {});
  }

  Message& assistant() {
    if (!assistant_) {
      assistant_ = Message{.role = Role::kAssistant, .content = {}};
      assistant_has_text_ = false;
    }
    if (has_reasoning_) {
      bool any = !assistant_->reasoning.empty();
      append_joined(assistant_->reasoning, any, take_reasoning(), "\n");
    }
    return *assistant_;
  }

  void add_assistant_text(const std::string& text) {
    if (assistant_ && !assistant_->tool_calls.empty()) close_assistant();
    append_joined(assistant().content, assistant_has_text_, text, "\n\n");
  }

  void add_call(const Fields& item, size_t i, std::string name, std::string arguments) {
    const std::string& id = item.required_string("call_id");
    if (id.empty()) {
      fail_request("Invalid '" + input_index(i) +
                   ".call_id': empty string. Expected a string with minimum length 1, but got an empty string "
                   "instead.");
    }
    close_results();
    if (std::find(open_calls_.begin(), open_calls_.end(), id) != open_calls_.end()) {
      fail_request("Duplicate 'call_id': " + id + ".");
    }
    assistant().tool_calls.push_back({id, std::move(name), std::move(arguments)});
    open_calls_.push_back(id);
  }

  void read_output(const Json& output, size_t i, Message& result) {
    read_content(output, i, "output should be a string or a list of output content parts", result);
  }

  void read_tool_search_output(const Fields& item, size_t i) {
    ResponsesTools found =
        read_responses_tools(as_array(item.at("tools"), "tools"), input_index(i) + ".tools", options_, request_);
    add_result(item, {.role = Role::kTool, .content = dump_compact(found.echo)});
    for (DeclaredTool& tool : found.declared) {
      tool.late = true;
      late_.push_back(to_definition(tool));
      out_.late_tools.push_back(std::move(tool));
    }
  }

  // Results stand behind their calls; the first one completes the assistant message.
  void add_result(const Fields& item, Message result) {
    const std::string& id = item.required_string("call_id");
    if (assistant_ && !assistant_->tool_calls.empty()) emit_assistant();
    const auto call = std::find(open_calls_.begin(), open_calls_.end(), id);
    if (call == open_calls_.end()) fail_request("No tool call found for tool output with call_id " + id + ".");
    open_calls_.erase(call);
    result.tool_call_id = id;
    out_.messages.push_back(std::move(result));
    in_results_ = true;
  }

  void emit_assistant() {
    std::vector<ToolCall>& calls = assistant_->tool_calls;
    std::stable_sort(calls.begin(), calls.end(), [](const ToolCall& a, const ToolCall& b) { return a.id < b.id; });
    out_.messages.push_back(std::move(*assistant_));
    assistant_.reset();
  }

  // Something other than a result follows: every call must have its result by now.
  void close_results() {
    if (!in_results_) return;
    require_answers();
    in_results_ = false;
    if (late_.empty()) return;
    Message update{.role = Role::kSystem, .content = {}};
    update.late_tools = std::exchange(late_, {});
    out_.messages.push_back(std::move(update));
  }

  void close_assistant() {
    require_answers();
    if (assistant_) emit_assistant();
  }

  void require_answers() const {
    if (!open_calls_.empty()) fail_request("No tool output found for tool call " + open_calls_.front() + ".");
  }

  const ProtocolOptions& options_;
  ResponsesRequest& request_;
  ResponsesItems out_;
  std::optional<Message> assistant_;  // not complete yet
  bool assistant_has_text_ = false;
  std::string reasoning_;  // belongs to the next assistant message
  bool has_reasoning_ = false;
  std::vector<std::string> open_calls_;  // without a result
  bool in_results_ = false;
  std::vector<ToolDefinition> late_;
};

}  // namespace

ResponsesItems read_responses_items(const Json& items, const ProtocolOptions& options, ResponsesRequest& request) {
  ItemReader reader(options, request);
  for (size_t i = 0; i < items.size(); ++i) reader.read(items[i], i);
  return reader.finish();
}

}  // namespace deepinfer
