// Conversation: what a chat prompt is made from, free of any protocol and of JSON types.
// Filled by the command line, the Python package and text/protocol; read by text/prompt_encoding.h.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace deepinfer {

enum class Role { kSystem, kUser, kAssistant, kTool, kLatestReminder };

enum class ImageDetail { kLow, kHigh, kOriginal, kAuto };

struct ImageSource {
  enum class Kind { kUrl, kDataUrl };
  Kind kind = Kind::kDataUrl;
  std::string url = {};  // http(s) address, or a whole data URL
  ImageDetail detail = ImageDetail::kHigh;
  std::string field = {};  // where the request named it, for error messages: ".messages[0]"
};

// An image stands before byte `offset` of its message's content; equal offsets keep their order.
struct InlineImage {
  size_t offset = 0;
  ImageSource source;
};

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text as the model or the client wrote it; need not be valid
};

struct ToolDefinition {
  std::string name;
  std::string description = {};   // empty when there is none
  std::string parameters = "{}";  // JSON Schema in the style of json_text.h's dump_python; printed as it is
};

struct Message {
  Role role = Role::kUser;
  std::string content = {};
  std::vector<InlineImage> images = {};         // system, user and tool only
  std::string reasoning = {};                   // assistant only
  std::vector<ToolCall> tool_calls = {};        // assistant only
  std::string tool_call_id = {};                // tool only
  std::vector<ToolDefinition> late_tools = {};  // system only: tools that this message adds to the conversation
  bool prefix = false;                          // assistant, last message only: the model continues this very text
};

// How long the model is asked to think.  `number` (1..100) overrules the level when it is not 0.
enum class EffortLevel { kLow, kHigh, kXHigh, kMax };
struct Effort {
  EffortLevel level = EffortLevel::kHigh;
  int number = 0;
};

enum class ToolChoice { kAuto, kNone, kRequired };

struct ResponseFormat {
  enum class Kind { kText, kJsonObject, kJsonSchema, kRegex };
  Kind kind = Kind::kText;
  std::string schema = {};  // kJsonSchema: in the style of dump_python; printed as it is.  Others: empty.
};

struct Conversation {
  std::vector<Message> messages;
  bool thinking = true;
  Effort effort = {};
  std::vector<ToolDefinition> tools = {};
  ToolChoice tool_choice = ToolChoice::kAuto;
  ResponseFormat response_format = {};

  // Tools are put into the prompt, and calls are read from the output, exactly when this is true.
  bool tools_shown() const { return !tools.empty() && tool_choice != ToolChoice::kNone; }
};

}  // namespace deepinfer
