// `deepinfer run` on the demonstration model: what goes where, and what never changes an answer.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "program.h"
#include "temporary_folder.h"

namespace deepinfer::cli {
namespace {

using Json = nlohmann::json;

std::vector<std::string> greedy(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"run", "--temperature", "0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

Json run_json(std::vector<std::string> arguments, const std::string& input = "") {
  arguments.push_back("--json");
  const ProgramResult result = deepinfer(arguments, input);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.errors, "");
  EXPECT_EQ(result.output.find('\n'), result.output.size() - 1) << "one object on one line";
  return Json::parse(result.output);
}

// Expected texts: tests/data/model/greedy.jsonl, the reference's greedy answers.
TEST(Run, AnswersOnStandardOutputAndNothingElse) {
  const ProgramResult result = deepinfer(greedy({"Hello!"}));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, "Hello! How can I help you today?\n");
  EXPECT_EQ(result.errors, "");
}

TEST(Run, ReasoningGoesToStandardError) {
  const std::string reasoning = "Add the tens: 20 + 40 = 60. Add the ones: 7 + 5 = 12. Together that is 72.";
  const ProgramResult result = deepinfer(greedy({"What is 27 + 45?", "--thinking"}));
  EXPECT_EQ(result.output, "27 + 45 = 72\n");
  EXPECT_EQ(result.errors, reasoning + "\n");
  const ProgramResult shown = deepinfer(greedy({"What is 27 + 45?", "--thinking", "--show-reasoning"}));
  EXPECT_EQ(shown.output, "<think>" + reasoning + "</think>\n\n27 + 45 = 72\n");
  EXPECT_EQ(shown.errors, "");
  const Json object = run_json(greedy({"What is 27 + 45?", "--thinking"}));
  EXPECT_EQ(object["reasoning"], reasoning);
  EXPECT_EQ(object["content"], "27 + 45 = 72");
}

TEST(Run, ArgumentFileAndStandardInputAskTheSame) {
  const TemporaryFolder folder;
  const std::string file = folder.write("prompt.txt", "Hello!\n").string();
  const std::string expected = deepinfer(greedy({"Hello!"})).output;
  EXPECT_EQ(deepinfer(greedy({"-f", file})).output, expected);
  EXPECT_EQ(deepinfer(greedy({"-f", "-"}), "Hello!\n").output, expected);
  EXPECT_EQ(deepinfer(greedy({}), "Hello!").output, expected);
  EXPECT_EQ(deepinfer(greedy({}), "Hello!\r\n").output, expected);
}

TEST(Run, JsonSaysAllOfIt) {
  const Json object = run_json(greedy({"Hello!", "--seed", "5", "--logprobs", "2"}));
  EXPECT_EQ(object["model"], "DeepSeek-V4.1-Tiny");
  EXPECT_EQ(object["content"], "Hello! How can I help you today?");
  EXPECT_TRUE(object["reasoning"].is_null());
  EXPECT_FALSE(object.contains("tool_calls"));
  EXPECT_EQ(object["finish_reason"], "stop");
  EXPECT_EQ(object["usage"]["prompt_tokens"], 6);
  EXPECT_EQ(object["usage"]["completion_tokens"], 10);
  EXPECT_EQ(object["usage"]["reasoning_tokens"], 0);
  EXPECT_EQ(object["seed"], 5);
  for (const char* field : {"load_seconds", "prefill_seconds", "decode_seconds"})
    EXPECT_GE(object["timings"][field], 0) << field;
  ASSERT_EQ(object["logprobs"].size(), 10u);
  EXPECT_EQ(object["logprobs"][0]["id"], 2295);
  EXPECT_EQ(object["logprobs"][0]["top"].size(), 2u);
  EXPECT_EQ(object["logprobs"][0]["top"][0]["id"], 2295);
}

TEST(Run, LengthAndStopStringsEndTheAnswer) {
  const Json cut = run_json(greedy({"Hello!", "--max-tokens", "3"}));
  EXPECT_EQ(cut["finish_reason"], "length");
  EXPECT_EQ(cut["usage"]["completion_tokens"], 3);
  const Json stopped = run_json(greedy({"Hello!", "--stop", "can I", "--stop", "never"}));
  EXPECT_EQ(stopped["finish_reason"], "stop");
  EXPECT_EQ(stopped["content"], "Hello! How ");
}

TEST(Run, APromptMayFollowAStopString) {
  EXPECT_EQ(run_json(greedy({"--stop", "never", "--stop=can I", "Hello!"}))["content"], "Hello! How ");
}

// With drafts a step decides tokens behind the one that completes a stop string.
TEST(Run, TokensBehindAStopStringDoNotCount) {
  const Json whole = run_json(greedy({"Hello!", "--logprobs", "0"}));
  for (size_t count = 2; count <= whole["logprobs"].size(); ++count) {
    const std::string stop = whole["logprobs"][count - 1]["token"];
    const auto answer = [&](const char* drafts) {
      const Json object = run_json(greedy({"Hello!", "--logprobs", "0", "--stop=" + stop, "--draft-tokens", drafts}));
      return std::tuple(object["content"], object["usage"], object["logprobs"]);
    };
    EXPECT_EQ(answer("5"), answer("0")) << stop;
  }
}

TEST(Run, NothingButTheSeedChangesASample) {
  const std::vector<std::string> prompt = {"run",   "Tell me something.", "--temperature", "1", "--max-tokens", "40",
                                           "--seed"};
  const auto sample = [&](const std::string& seed, std::vector<std::string> more) {
    std::vector<std::string> arguments = prompt;
    arguments.push_back(seed);
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = deepinfer(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.output;
  };
  const std::string expected = sample("11", {});
  EXPECT_EQ(sample("11", {}), expected);
  EXPECT_EQ(sample("11", {"--threads", "1"}), expected);
  EXPECT_EQ(sample("11", {"--draft-tokens", "0"}), expected);
  EXPECT_NE(sample("12", {}), expected);
}

TEST(Run, GreedyAnswersDoNotDependOnHowTheyAreComputed) {
  const std::vector<std::string> prompt = {"What is 27 + 45?", "--thinking"};
  const auto answer = [&](std::vector<std::string> more) {
    more.insert(more.begin(), prompt.begin(), prompt.end());
    const Json object = run_json(greedy(more));
    return std::pair(object["reasoning"], object["content"]);
  };
  const auto expected = answer({});
  for (const char* threads : {"1", "2"}) EXPECT_EQ(answer({"--threads", threads}), expected) << threads;
  for (const char* drafts : {"0", "1", "5"}) EXPECT_EQ(answer({"--draft-tokens", drafts}), expected) << drafts;
  for (const char* rows : {"1", "7", "64"}) EXPECT_EQ(answer({"--prefill-chunk", rows}), expected) << rows;
  EXPECT_EQ(answer({"--prefill", "full"}), expected);
}

TEST(Run, RawPromptsHaveExactlyOneBeginToken) {
  const Json plain = run_json(greedy({"--raw", "Hello", "--max-tokens", "1"}));
  const Json given = run_json(greedy({"--raw", "<｜begin▁of▁sentence｜>Hello", "--max-tokens", "1"}));
  EXPECT_EQ(plain["usage"]["prompt_tokens"], given["usage"]["prompt_tokens"]);
  EXPECT_EQ(plain["content"], given["content"]);
  // The chat turn spelled out by hand is the chat turn.
  EXPECT_EQ(deepinfer(greedy({"--raw", "<｜begin▁of▁sentence｜><｜User｜>Hello!<｜Assistant｜></think>"})).output,
            deepinfer(greedy({"Hello!"})).output);
}

TEST(Run, VerboseStatisticsGoToStandardError) {
  const ProgramResult result = deepinfer(greedy({"Hello!", "--verbose", "--seed", "77"}));
  EXPECT_EQ(result.output, "Hello! How can I help you today?\n");
  for (const char* part : {"seed 77", "prompt 6 tokens", "answer 10 tokens", "tokens/s", "accepted"})
    EXPECT_NE(result.errors.find(part), std::string::npos) << result.errors;
}

TEST(Run, PromptsLongerThanTheContextNameBothNumbers) {
  const ProgramResult result =
      deepinfer({"run", "one two three four five six seven eight nine ten", "--max-context", "8"});
  EXPECT_EQ(result.exit_code, 3) << result.errors;
  EXPECT_EQ(result.output, "");
  EXPECT_TRUE(result.errors.starts_with("deepinfer: error: ")) << result.errors;
  EXPECT_NE(result.errors.find(" 8"), std::string::npos) << result.errors;
}

// An answer that does not end by itself.
const std::vector<std::string> kLong = {"run", "Hello!", "--ignore-end", "--max-tokens", "200000"};

TEST(Run, AnInterruptKeepsWhatThereIs) {
  bool sent = false;
  ProgramRun run{.arguments = kLong};
  run.on_output = [&sent](const std::string& output) {
    if (sent || output.empty()) return 0;
    sent = true;
    return SIGINT;
  };
  const ProgramResult result = run_program(run);
  EXPECT_EQ(result.exit_code, 130) << result.errors;
  EXPECT_TRUE(result.output.ends_with('\n'));
  EXPECT_EQ(result.errors, "");
}

TEST(Run, AReaderThatGoesAwayIsNoError) {
  ProgramRun run{.arguments = kLong};
  run.close_output_early = true;
  const ProgramResult result = run_program(run);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.errors, "");
}

TEST(Run, AFullDiskIsAnError) {
  const ProgramResult result = run_program(
      {.arguments = {"-c", std::string(DEEPINFER_PROGRAM) + " run Hello > /dev/full"}, .program = "/bin/sh"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_NE(result.errors.find("deepinfer: error: cannot write to standard output: No space left"), std::string::npos)
      << result.errors;
}

// Mapped weights counted; sanitizers keep memory of their own.
TEST(Run, NeedsLittleMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer build";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "a sanitizer build";
#endif
#endif
  EXPECT_LT(deepinfer(greedy({"What is 27 + 45?", "--thinking"})).peak_rss_kib, 120'000'000 / 1024);
}

TEST(Run, ToolsAreOfferedAndCallsComeBack) {
  const TemporaryFolder folder;
  const std::string file = folder
                               .write("tools.json", R"([{"type": "function", "function": {"name": "get_weather",
      "description": "Get the weather of a city", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])")
                               .string();
  const Json object = run_json(greedy({"What is the weather in Paris?", "--tools", file}));
  ASSERT_TRUE(object.contains("tool_calls")) << object.dump();
  EXPECT_EQ(object["tool_calls"][0]["name"], "get_weather");
  EXPECT_EQ(Json::parse(object["tool_calls"][0]["arguments"].get<std::string>())["city"], "Paris");
  EXPECT_EQ(object["finish_reason"], "tool_calls");

  const std::string bad =
      folder.write("bad.json", R"([{"type": "function", "function": {"name": "no spaces please"}}])").string();
  const ProgramResult refused = deepinfer({"run", "hi", "--tools", bad});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_NE(refused.errors.find("tools[0].function.name"), std::string::npos) << refused.errors;
}

}  // namespace
}  // namespace deepinfer::cli
