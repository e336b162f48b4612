// --kv-cache: a second process begins with what the first has computed, and says the same.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>

#include "program.h"
#include "temporary_folder.h"

namespace deepinfer::cli {
namespace {

using Json = nlohmann::json;

std::string long_prompt() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "Fact " + std::to_string(i) + " is as true as the others. ";
  return text + "Say hello.";
}

Json run_json(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"run", "--temperature", "0", "--max-tokens", "12", "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProgramResult result = deepinfer(arguments, long_prompt());
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  return Json::parse(result.output);
}

TEST(KvCache, TheSecondProcessBeginsWithWhatTheFirstComputed) {
  const TemporaryFolder folder;
  const std::string cache = (folder / "new" / "").string();
  const Json plain = run_json({});
  EXPECT_FALSE(plain["usage"].contains("disk_tokens"));
  const Json first = run_json({"--kv-cache", cache});
  EXPECT_EQ(first["usage"]["disk_tokens"], 0);
  const Json second = run_json({"--kv-cache", cache});
  const int64_t tokens = plain["usage"]["prompt_tokens"];
  EXPECT_EQ(second["usage"]["disk_tokens"], (tokens - 1) / 128 * 128);
  EXPECT_EQ(second["usage"]["cached_tokens"], (tokens - 1) / 128 * 128);
  for (const Json* answer : {&first, &second}) {
    EXPECT_EQ((*answer)["content"], plain["content"]);
    EXPECT_EQ((*answer)["finish_reason"], plain["finish_reason"]);
    EXPECT_EQ((*answer)["usage"]["completion_tokens"], plain["usage"]["completion_tokens"]);
  }
  const ProgramResult verbose =
      deepinfer({"run", "--temperature", "0", "--max-tokens", "2", "--kv-cache", cache, "--verbose"}, long_prompt());
  EXPECT_NE(verbose.errors.find(" prompt tokens from disk)"), std::string::npos) << verbose.errors;
}

TEST(KvCache, AKilledProcessLeavesAFolderThatServes) {
  const TemporaryFolder folder;
  const std::string cache = folder.path().string();
  ProgramRun killed;
  killed.arguments = {"run", "--temperature", "0", "--kv-cache", cache, "--ignore-end", "--max-tokens", "400"};
  killed.input = long_prompt();
  killed.on_output = [](const std::string& output) { return output.size() > 20 ? SIGKILL : 0; };
  EXPECT_EQ(run_program(killed).signal, SIGKILL);
  const Json again = run_json({"--kv-cache", cache});
  EXPECT_GT(again["usage"]["disk_tokens"], 0);
  EXPECT_EQ(again["content"], run_json({})["content"]);
}

TEST(KvCache, OptionsThatDoNotGoTogether) {
  const TemporaryFolder folder;
  const ProgramResult full = deepinfer({"run", "--kv-cache", folder.path().string(), "--prefill", "full", "x"});
  EXPECT_NE(full.exit_code, 0);
  EXPECT_NE(full.errors.find("--kv-cache keeps what --prefill exact computes"), std::string::npos) << full.errors;
  EXPECT_NE(deepinfer({"run", "--kv-cache-size", "3", "x"}).errors.find("requires --kv-cache"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::cli
