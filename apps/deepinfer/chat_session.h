// The state of `deepinfer chat`: the messages so far and what each typed line does to them.  Knows nothing of
// terminals.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "text/conversation.h"

namespace deepinfer::cli {

// What a typed line asks for.
struct ChatLine {
  enum class Kind { kMessage, kReset, kSystem, kSave, kHelp, kExit };
  Kind kind = Kind::kMessage;
  std::string text;  // the message, the system text, or the file name
};

// A line that begins with "/" is a command ("//" starts a message with one slash).  Invalid argument: an unknown
// command, a missing file name, text that is not UTF-8.
Result<ChatLine> parse_chat_line(std::string_view line);

// What /help prints.
std::string_view chat_help();

class ChatSession {
 public:
  ChatSession(std::string system, bool thinking, Effort effort);

  // Forgets the turns; the system message stays.
  void reset();
  // Replaces the system message (empty: none) and forgets the turns, which were made under the old one.
  void set_system(std::string text);

  void add_user(std::string text);
  // The turn did not come about: takes the user's message back.
  void remove_last_user();
  void add_assistant(std::string content, std::string reasoning);

  const Conversation& conversation() const { return conversation_; }
  // {"messages": [{"role", "content", "reasoning_content"}, ...]} in the form of Chat Completions.
  std::string to_json() const;
  Status save(const std::string& file) const;

 private:
  Conversation conversation_;
};

}  // namespace deepinfer::cli
