#include "chat_session.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "temporary_folder.h"

namespace deepinfer::cli {
namespace {

TEST(ChatLine, TellsMessagesFromCommands) {
  EXPECT_EQ(parse_chat_line("Hello")->kind, ChatLine::Kind::kMessage);
  EXPECT_EQ(parse_chat_line("a /reset")->kind, ChatLine::Kind::kMessage);
  EXPECT_EQ(parse_chat_line("//etc is a folder")->text, "/etc is a folder");
  EXPECT_EQ(parse_chat_line("/reset")->kind, ChatLine::Kind::kReset);
  EXPECT_EQ(parse_chat_line("/exit ")->kind, ChatLine::Kind::kExit);
  EXPECT_EQ(parse_chat_line("/system  Be brief. ")->text, "Be brief.");
  EXPECT_EQ(parse_chat_line("/system")->text, "");
  EXPECT_EQ(parse_chat_line("/save a b.json")->text, "a b.json");
}

TEST(ChatLine, RefusesWhatItDoesNotKnow) {
  for (const char* line : {"/quit", "/save", "/save  ", "/reset now", "/", "/Reset", "\xFFoo"})
    EXPECT_EQ(parse_chat_line(line).status().code(), StatusCode::kInvalidArgument) << line;
}

TEST(ChatSession, KeepsTheSystemMessageOnReset) {
  ChatSession session("Be brief.", true, {.number = 30});
  session.add_user("Hi");
  session.add_assistant("Hello", "A greeting.");
  session.reset();
  ASSERT_EQ(session.conversation().messages.size(), 1u);
  EXPECT_EQ(session.conversation().messages[0].content, "Be brief.");
  EXPECT_TRUE(session.conversation().thinking);
  EXPECT_EQ(session.conversation().effort.number, 30);
  session.set_system("");
  EXPECT_TRUE(session.conversation().messages.empty());
}

TEST(ChatSession, SavesWhatChatCompletionsReads) {
  ChatSession session("", false, {});
  session.add_user("Two\nlines and \"quotes\"");
  session.add_assistant("Yes", "Because.");
  session.add_user("taken back");
  session.remove_last_user();
  const TemporaryFolder folder;
  ASSERT_TRUE(session.save((folder / "talk.json").string()).ok());
  const auto saved = nlohmann::json::parse(read_file(folder / "talk.json"));
  EXPECT_EQ(saved, nlohmann::json::parse(R"({"messages": [
      {"role": "user", "content": "Two\nlines and \"quotes\""},
      {"role": "assistant", "content": "Yes", "reasoning_content": "Because."}]})"));
  EXPECT_EQ(session.save((folder / "no/such/talk.json").string()).code(), StatusCode::kIoError);
}

}  // namespace
}  // namespace deepinfer::cli
