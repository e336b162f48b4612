#include "chat_session.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "text/json_text.h"
#include "text_input.h"

namespace deepinfer::cli {
namespace {

std::string_view role_name(Role role) {
  switch (role) {
    case Role::kSystem:
      return "system";
    case Role::kUser:
      return "user";
    case Role::kAssistant:
      return "assistant";
    case Role::kTool:
      return "tool";
    case Role::kLatestReminder:
      return "latest_reminder";
  }
  return "user";
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

}  // namespace

Result<ChatLine> parse_chat_line(std::string_view line) {
  DI_RETURN_IF_ERROR(check_utf8(line, "the line"));
  if (!line.starts_with('/')) return ChatLine{ChatLine::Kind::kMessage, std::string(line)};
  if (line.starts_with("//")) return ChatLine{ChatLine::Kind::kMessage, std::string(line.substr(1))};
  const size_t space = line.find_first_of(" \t");
  const std::string_view command = line.substr(0, space);
  const std::string text(space == std::string_view::npos ? std::string_view() : trimmed(line.substr(space)));
  if (command == "/system") return ChatLine{ChatLine::Kind::kSystem, text};
  if (command == "/save") {
    if (text.empty()) return invalid_argument("/save needs a file name: /save FILE");
    return ChatLine{ChatLine::Kind::kSave, text};
  }
  for (const auto& [name, kind] :
       {std::pair{"/reset", ChatLine::Kind::kReset}, std::pair{"/help", ChatLine::Kind::kHelp},
        std::pair{"/exit", ChatLine::Kind::kExit}}) {
    if (command != name) continue;
    if (!text.empty()) return invalid_argument(fmt::format("{} takes nothing behind it", name));
    return ChatLine{kind, {}};
  }
  return invalid_argument(
      fmt::format("unknown command {} (/help lists them; // starts a message with a slash)", command));
}

std::string_view chat_help() {
  return "/reset          forget the conversation, keep the system message\n"
         "/system TEXT    set the system message and start anew (no TEXT: none)\n"
         "/save FILE      write the conversation as JSON\n"
         "/help           this list\n"
         "/exit           leave (Ctrl-D too)\n"
         "Ctrl-C stops an answer.  A line that ends with \\ goes on in the next one.  // starts a message with a "
         "slash.\n";
}

ChatSession::ChatSession(std::string system, bool thinking, Effort effort) {
  conversation_.thinking = thinking;
  conversation_.effort = effort;
  set_system(std::move(system));
}

void ChatSession::reset() {
  auto& messages = conversation_.messages;
  const bool has_system = !messages.empty() && messages.front().role == Role::kSystem;
  messages.resize(has_system ? 1 : 0);
}

void ChatSession::set_system(std::string text) {
  conversation_.messages.clear();
  if (!text.empty()) conversation_.messages.push_back({Role::kSystem, std::move(text)});
}

void ChatSession::add_user(std::string text) {
  conversation_.messages.push_back({Role::kUser, std::move(text)});
}

void ChatSession::remove_last_user() {
  DI_CHECK(!conversation_.messages.empty() && conversation_.messages.back().role == Role::kUser,
           "the last message is the user's");
  conversation_.messages.pop_back();
}

void ChatSession::add_assistant(std::string content, std::string reasoning) {
  Message message{Role::kAssistant, std::move(content)};
  message.reasoning = std::move(reasoning);
  conversation_.messages.push_back(std::move(message));
}

std::string ChatSession::to_json() const {
  Json messages = Json::array();
  for (const Message& message : conversation_.messages) {
    Json entry{{"role", role_name(message.role)}, {"content", message.content}};
    if (!message.reasoning.empty()) entry["reasoning_content"] = message.reasoning;
    messages.push_back(std::move(entry));
  }
  return Json{{"messages", std::move(messages)}}.dump(2) + "\n";
}

Status ChatSession::save(const std::string& file) const {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << to_json();
  out.close();
  if (!out) return io_error(fmt::format("cannot write {}: {}", file, std::generic_category().message(errno)));
  return {};
}

}  // namespace deepinfer::cli
