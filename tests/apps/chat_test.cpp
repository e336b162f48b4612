// `deepinfer chat` through a pipe.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "program.h"
#include "temporary_folder.h"

namespace deepinfer::cli {
namespace {

ProgramResult chat(const std::string& lines, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"chat", "--temperature", "0"});
  return deepinfer(more, lines);
}

TEST(Chat, AnswersLineByLineLikeRun) {
  const ProgramResult result = chat("Hello!\n\nWhat is 3 + 4?\n");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.errors, "");
  EXPECT_TRUE(result.output.starts_with("Hello! How can I help you today?\n")) << result.output;
}

TEST(Chat, ResetMakesTheFirstTurnFirstAgain) {
  const ProgramResult result = chat("Hello!\n/reset\nHello!\n/exit\nnever read\n");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, "Hello! How can I help you today?\nHello! How can I help you today?\n");
}

TEST(Chat, SavesTheConversation) {
  const TemporaryFolder folder;
  const std::string file = (folder / "talk.json").string();
  const ProgramResult result = chat("/system Be brief.\nHello!\n/save " + file + "\n");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const auto saved = nlohmann::json::parse(read_file(file));
  ASSERT_EQ(saved["messages"].size(), 3u);
  EXPECT_EQ(saved["messages"][0], (nlohmann::json{{"role", "system"}, {"content", "Be brief."}}));
  EXPECT_EQ(saved["messages"][1]["content"], "Hello!");
  EXPECT_EQ(saved["messages"][2]["role"], "assistant");
  EXPECT_EQ(saved["messages"][2]["content"].get<std::string>() + "\n", result.output);
}

// The second turn's answer does not depend on whether the first turn's state was kept.
TEST(Chat, KeepsTheStateOfEarlierTurns) {
  const ProgramResult result = chat("Hello!\nWhat is 3 + 4?\n", {"--verbose"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.errors.find("kept from before"), std::string::npos) << result.errors;
  const std::string first = "Hello! How can I help you today?";
  const std::string second = result.output.substr(first.size() + 1);
  const ProgramResult alone = deepinfer({"run", "--temperature", "0", "--raw",
                                         "<｜User｜>Hello!<｜Assistant｜></think>" + first +
                                             "<｜end▁of▁sentence｜><｜User｜>What is 3 + 4?<｜Assistant｜></think>"});
  EXPECT_EQ(alone.output, second);
}

TEST(Chat, ALineMayGoOnInTheNext) {
  const TemporaryFolder folder;
  const std::string file = (folder / "talk.json").string();
  EXPECT_EQ(chat("one \\\ntwo\n/save " + file + "\n", {"--max-tokens", "2"}).exit_code, 0);
  EXPECT_EQ(nlohmann::json::parse(read_file(file))["messages"][0]["content"], "one \ntwo");
}

TEST(Chat, TheFirstErrorEndsAPipedChat) {
  const ProgramResult unknown = chat("/nonsense\nHello!\n");
  EXPECT_EQ(unknown.exit_code, 3);
  EXPECT_EQ(unknown.output, "");
  EXPECT_NE(unknown.errors.find("unknown command /nonsense"), std::string::npos) << unknown.errors;
  const ProgramResult unwritable = chat("/save /no/such/folder/talk.json\n");
  EXPECT_EQ(unwritable.exit_code, 4);
  EXPECT_NE(unwritable.errors.find("cannot write /no/such/folder/talk.json"), std::string::npos) << unwritable.errors;
}

// Ctrl-C ends the answer and the chat goes on.
TEST(Chat, AnInterruptStopsTheAnswerOnly) {
  int signals = 0;
  ProgramRun run{.arguments = {"chat", "--ignore-end", "--max-tokens", "200000"},
                 .input = "Tell me a very long story.\n/reset\n/exit\n"};
  run.on_output = [&signals](const std::string& output) { return !output.empty() && signals++ == 0 ? SIGINT : 0; };
  const ProgramResult result = run_program(run);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.signal, 0);
}

}  // namespace
}  // namespace deepinfer::cli
