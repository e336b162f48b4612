#include "text/protocol/chat_messages.h"

#include <unordered_set>
#include <utility>

#include "text/protocol/call_ids.h"
#include "text/protocol/message_content.h"
#include "text/protocol/request_fields.h"

namespace deepinfer {
namespace {

std::string index(std::string_view name, size_t i) {
  return std::string(name) + "[" + std::to_string(i) + "]";
}

class MessageReader {
 public:
  MessageReader(const Json& list, const ProtocolOptions& options) : list_(list), options_(options) {}

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

}  // namespace

ChatMessages read_chat_messages(const Json& list, const ProtocolOptions& options) {
  MessageReader reader(list, options);
  ChatMessages messages;
  messages.list = reader.read();
  messages.missing_reasoning = reader.missing_reasoning();
  check_calls_and_results(messages.list);
  return messages;
}

}  // namespace deepinfer
