#include "text/protocol/messages_blocks.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "text/protocol/call_ids.h"
#include "text/protocol/message_content.h"
#include "text/protocol/request_fields.h"

namespace deepinfer {
namespace {

enum class Block {
  kText,
  kImage,
  kDocument,
  kThinking,
  kServerToolUse,
  kToolUse,
  kToolResult,
  kWebSearchToolResult,
  kToolAddition,
};

Block block_type(const Fields& block) {
  return static_cast<Block>(Fields::one_of(block.required_string("type"),
                                           {"text", "image", "document", "thinking", "server_tool_use", "tool_use",
                                            "tool_result", "web_search_tool_result", "tool_addition"}));
}

std::string place_of(size_t i) {
  return "messages." + std::to_string(i);
}
std::string content_place(size_t i, size_t j) {
  return place_of(i) + ".content." + std::to_string(j);
}

// `image`: how errors and later checks name it.
void add_image(const Fields& block, const std::string& image, ContentBuilder& builder) {
  const Fields source(block.at("source"), "image source");
  switch (Fields::one_of(source.required_string("type"), {"base64", "url", "file"})) {
    case 0: {
      const std::string& type = source.required_string("media_type");
      Fields::one_of(type, {"image/jpeg", "image/jpg", "image/png", "image/gif", "image/webp"});
      builder.add_image({ImageSource::Kind::kDataUrl, "data:" + type + ";base64," + source.required_string("data"),
                         ImageDetail::kHigh, image});
      return;
    }
    case 1:
      builder.add_image(read_image_url(source.required_string("url"), ImageDetail::kHigh, image, image + ": url"));
      return;
    default:
      fail_request(image + ": file_id is not supported. Pass the image as a base64 data url instead.");
  }
}

void add_document(const Fields& block, ContentBuilder& builder) {
  const Fields source(block.at("source"), "document source");
  source.required_string("type");
  builder.add_text("[Unsupported document type: " + source.string("media_type").value_or("unknown") + "]");
}

class BlockReader {
 public:
  BlockReader(const std::vector<DeclaredTool>& tools, const ProtocolOptions& options) : options_(options) {
    for (const DeclaredTool& tool : tools) tools_.emplace(tool.name, &tool);
  }

  void read(const Json& value, size_t i) {
    const Fields message(value, "message");
    const size_t role = Fields::one_of(message.required_string("role"), {"user", "assistant", "system"});
    const Json& content = message.at("content");
    if (!content.is_string() && !content.is_array()) fail_body("expected a string or a list");
    if (content.is_array() && content.empty()) {
      fail_request(place_of(i) + ": all messages must have non-empty content");
    }
    index_ = i;
    if (!open_uses_.empty() && !begins_with_result(content, role)) {
      fail_unanswered(place_of(i) + ": ");
    }
    switch (role) {
      case 0:
        read_user(content);
        break;
      case 1:
        read_assistant(content);
        break;
      default:
        read_system(content);
    }
  }

  MessagesConversation finish() {
    if (!open_uses_.empty()) fail_unanswered(place_of(uses_index_) + ":");
    return std::move(out_);
  }

 private:
  static bool begins_with_result(const Json& content, size_t role) {
    return role == 0 && content.is_array() && block_type(Fields(content[0], "content block")) == Block::kToolResult;
  }

  [[noreturn]] void fail_unanswered(const std::string& place) const {
    std::string ids;
    for (const std::string& id : open_uses_) ids.append(ids.empty() ? "" : ", ").append(id);
    fail_request(place + "`tool_use` ids were found without `tool_result` blocks immediately after: " + ids +
                 ". Each `tool_use` block must have a corresponding `tool_result` block in the next message.");
  }

  [[noreturn]] void fail_role(std::string_view block, std::string_view role) const {
    fail_request(place_of(index_) + ": `" + std::string(block) + "` blocks can only be in `" + std::string(role) +
                 "` messages");
  }

  void read_user(const Json& content) {
    Message user{.role = Role::kUser, .content = {}};
    if (content.is_string()) {
      user.content = content.get_ref<const std::string&>();
      out_.messages.push_back(std::move(user));
      return;
    }
    ContentBuilder builder;
    std::vector<ToolDefinition> late;
    std::unordered_set<std::string> answered;
    bool only_results = true;
    for (size_t j = 0; j < content.size(); ++j) {
      const Fields block(content[j], "content block");
      const Block type = block_type(block);
      if (type == Block::kToolResult) {
        read_result(block, j, answered, late);
        continue;
      }
      if (only_results) end_results(late);
      only_results = false;
      switch (type) {
        case Block::kText:
          builder.add_text(block.required_string("text"));
          break;
        case Block::kImage:
          add_image(block, place_of(index_) + ".content[" + std::to_string(j) + "]", builder);
          break;
        case Block::kDocument:
          add_document(block, builder);
          break;
        case Block::kThinking:
          fail_request(place_of(index_) + ".content: thinking blocks may only be in `assistant` messages");
        case Block::kToolUse:
          fail_role("tool_use", "assistant");
        case Block::kToolAddition:
          fail_role("tool_addition", "system");
        default:
          handle_server_block();
      }
    }
    if (only_results) {
      end_results(late);
      return;
    }
    builder.move_to(user);
    out_.messages.push_back(std::move(user));
  }

  void read_result(const Fields& block, size_t j, std::unordered_set<std::string>& answered,
                   std::vector<ToolDefinition>& late) {
    const std::string& id = block.required_string("tool_use_id");
    block.boolean("is_error");
    if (answered.contains(id)) {
      fail_request(content_place(index_, j) +
                   ": each tool_use must have a single result. Found multiple `tool_result` blocks with id: " + id);
    }
    const auto use = std::find(open_uses_.begin(), open_uses_.end(), id);
    if (use == open_uses_.end()) {
      fail_request("unexpected `" + content_place(index_, j) + ": tool_use_id` found in `tool_result` blocks: " + id +
                   ". Each `tool_result` block must have a corresponding `tool_use` block in the previous message.");
    }
    open_uses_.erase(use);
    answered.insert(id);
    Message result{.role = Role::kTool, .content = {}};
    result.tool_call_id = id;
    if (const Json* content = block.find("content")) read_result_content(*content, j, result, late);
    out_.messages.push_back(std::move(result));
  }

  void read_result_content(const Json& content, size_t j, Message& result, std::vector<ToolDefinition>& late) {
    if (content.is_string()) {
      result.content = content.get_ref<const std::string&>();
      return;
    }
    if (!content.is_array()) fail_body("expected a string or a list");
    ContentBuilder builder;
    for (const Json& entry : content) {
      const Fields block(entry, "content block");
      switch (Fields::one_of(block.required_string("type"), {"text", "image", "document", "tool_reference"})) {
        case 0:
          builder.add_text(block.required_string("text"));
          break;
        case 1:
          add_image(block, content_place(index_, j) + ".tool_result", builder);
          break;
        case 2:
          add_document(block, builder);
          break;
        default: {
          const std::string& name = block.required_string("tool_name");
          builder.add_text(name);
          late.push_back(to_definition(late_tool(name, content_place(index_, j), "tool_reference")));
        }
      }
    }
    builder.move_to(result);
  }

  // The results of one user message are complete: all calls are answered, and the tools they brought are shown.
  void end_results(std::vector<ToolDefinition>& late) {
    if (!open_uses_.empty()) fail_unanswered(place_of(uses_index_) + ":");
    if (late.empty()) return;
    Message update{.role = Role::kSystem, .content = {}};
    update.late_tools = std::exchange(late, {});
    out_.messages.push_back(std::move(update));
  }

  const DeclaredTool& late_tool(const std::string& name, const std::string& place, std::string_view block) const {
    const auto found = tools_.find(name);
    if (found == tools_.end() || !found->second->late) {
      fail_request(place + ": `" + std::string(block) + "` references unknown tool '" + name + "'");
    }
    return *found->second;
  }

  void read_assistant(const Json& content) {
    Message message{.role = Role::kAssistant, .content = {}};
    if (content.is_string()) {
      message.content = content.get_ref<const std::string&>();
      out_.messages.push_back(std::move(message));
      return;
    }
    ContentBuilder text;
    ContentBuilder thinking;
    bool has_thinking = false;
    bool says_empty = false;
    for (size_t j = 0; j < content.size(); ++j) {
      const Fields block(content[j], "content block");
      switch (block_type(block)) {
        case Block::kText:
          if (!message.tool_calls.empty()) fail_unanswered(place_of(index_) + "." + std::to_string(j) + ": ");
          text.add_text(block.required_string("text"));
          break;
        case Block::kThinking:
          thinking.add_text(block.required_string("thinking"));
          has_thinking = true;
          break;
        case Block::kToolUse:
          read_use(block, j, message);
          says_empty = says_empty || says_empty_thinking(message.tool_calls.back().id);
          break;
        case Block::kImage:
          fail_request("Image in assistant message is unsupported");
        case Block::kDocument:
          fail_role("document", "user");
        case Block::kToolResult:
          fail_role("tool_result", "user");
        case Block::kToolAddition:
          fail_role("tool_addition", "system");
        case Block::kServerToolUse:
        case Block::kWebSearchToolResult:
          handle_server_block();
          break;
      }
    }
    Message reasoning{.role = Role::kAssistant, .content = {}};
    thinking.move_to(reasoning);
    text.move_to(message);
    message.reasoning = std::move(reasoning.content);
    if (!message.tool_calls.empty() && !has_thinking && !says_empty) out_.missing_thinking = true;
    out_.messages.push_back(std::move(message));
  }

  void read_use(const Fields& block, size_t j, Message& message) {
    const std::string& id = block.required_string("id");
    const auto same = [&](const ToolCall& call) { return call.id == id; };
    if (std::any_of(message.tool_calls.begin(), message.tool_calls.end(), same)) {
      fail_request(content_place(index_, j) + ": `tool_use` ids must be unique");
    }
    message.tool_calls.push_back({id, block.required_string("name"), dump_compact(block.at("input"))});
    open_uses_.push_back(id);
    uses_index_ = index_;
  }

  void read_system(const Json& content) {
    Message message{.role = Role::kSystem, .content = {}};
    if (content.is_string()) {
      message.content = content.get_ref<const std::string&>();
      out_.messages.push_back(std::move(message));
      return;
    }
    ContentBuilder builder;
    for (size_t j = 0; j < content.size(); ++j) {
      const Fields block(content[j], "content block");
      switch (block_type(block)) {
        case Block::kText:
          builder.add_text(block.required_string("text"));
          break;
        case Block::kImage:
          add_image(block, place_of(index_), builder);
          break;
        case Block::kToolAddition: {
          const Fields tool(block.at("tool"), "tool");
          Fields::one_of(tool.required_string("type"), {"tool_reference"});
          message.late_tools.push_back(
              to_definition(late_tool(tool.required_string("name"), content_place(index_, j), "tool_addition")));
          break;
        }
        case Block::kThinking:
          fail_request(place_of(index_) + ".content: thinking blocks may only be in `assistant` messages");
        case Block::kDocument:
          fail_role("document", "user");
        case Block::kToolUse:
          fail_role("tool_use", "assistant");
        case Block::kToolResult:
          fail_role("tool_result", "user");
        case Block::kServerToolUse:
        case Block::kWebSearchToolResult:
          handle_server_block();
          break;
      }
    }
    builder.move_to(message);
    out_.messages.push_back(std::move(message));
  }

  // Blocks of tools that run on the server are refused or left out.
  void handle_server_block() const {
    if (options_.messages_web_search == ProtocolOptions::WebSearch::kReject) {
      fail_request("Unsupported content block: server tools are not supported");
    }
  }

  const ProtocolOptions& options_;
  std::unordered_map<std::string_view, const DeclaredTool*> tools_;
  MessagesConversation out_;
  size_t index_ = 0;                    // of the message being read
  std::vector<std::string> open_uses_;  // tool uses without a result
  size_t uses_index_ = 0;               // the message that holds them
};

}  // namespace

MessagesConversation read_messages_blocks(const Json& list, const std::vector<DeclaredTool>& tools,
                                          const ProtocolOptions& options) {
  BlockReader reader(tools, options);
  for (size_t i = 0; i < list.size(); ++i) reader.read(list[i], i);
  return reader.finish();
}

}  // namespace deepinfer
