// `--request-log` and `deepinfer replay`: a run is repeated bit for bit, however the engine is set up, and whatever is
// left of the log.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "program.h"
#include "temporary_folder.h"

namespace deepinfer::cli {
namespace {

using Json = nlohmann::json;

std::string request_line(const std::string& id, const std::string& prompt, int max_tokens, Json extra = {}) {
  Json body{{"model", "DeepSeek-V4.1-Flash"}, {"prompt", prompt}, {"max_tokens", max_tokens}, {"logprobs", 2}};
  if (!extra.is_null()) body.update(extra);
  return Json{{"custom_id", id}, {"method", "POST"}, {"url", "/v1/completions"}, {"body", body}}.dump() + "\n";
}

class Replay : public testing::Test {
 protected:
  // A job of a few requests with its log.
  void run_job(std::vector<std::string> more = {}) {
    std::string requests = request_line("a", "What is 3 + 4?", 12) +
                           request_line("b", "The sky is", 20, {{"seed", 7}}) +
                           request_line("c", "Once upon a time", 9, {{"temperature", 0}, {"presence_penalty", 1}});
    const Json schema{{"type", "object"}, {"properties", {{"n", {{"type", "integer"}}}}}, {"required", {"n"}}};
    requests +=
        Json{{"custom_id", "d"},
             {"method", "POST"},
             {"url", "/v1/chat/completions"},
             {"body",
              {{"model", "DeepSeek-V4.1-Flash"},
               {"messages", {{{"role", "user"}, {"content", "A number as JSON."}}}},
               {"thinking", {{"type", "disabled"}}},
               {"max_tokens", 16},
               {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"schema", schema}}}}}}}}
            .dump() +
        "\n";
    std::vector<std::string> arguments{"batch",       folder_.write("requests.jsonl", requests).string(),
                                       "-o",          (folder_ / "results.jsonl").string(),
                                       "-q",          "--max-context",
                                       "2048",        "--request-log",
                                       log_.string(), "--draft-schedule",
                                       "all"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = deepinfer(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.errors;
  }
  ProgramResult replay(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"replay", log_.string(), "--draft-schedule", "all"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return deepinfer(arguments);
  }

  TemporaryFolder folder_;
  std::filesystem::path log_ = folder_ / "run.log";
};

TEST_F(Replay, RepeatsARunBitForBit) {
  run_job();
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{},
        {"--max-sequences", "1", "--draft-tokens", "0", "--no-prefix-cache", "--step-rows", "3", "--threads", "1"},
        {"--speed", "recorded", "--threads", "2"}}) {
    const ProgramResult result = replay(more);
    EXPECT_EQ(result.exit_code, 0) << result.output << result.errors;
    EXPECT_NE(result.output.find("4 of 4 answers are the same, bit for bit"), std::string::npos) << result.output;
    EXPECT_EQ(result.errors, "");
  }
}

TEST_F(Replay, NamesTheFirstDifference) {
  run_job();
  std::string text = read_file(log_);
  // One bit of a log-probability of the first end, and a token of the second.
  std::istringstream in(text);
  std::string changed;
  int ends = 0;
  std::vector<uint64_t> ids;
  for (std::string line; std::getline(in, line);) {
    Json json = Json::parse(line);
    if (json.contains("end") && ends < 2) {
      ids.push_back(json["end"]);
      Json& token = json["tokens"][3];
      if (ends++ == 0) {
        token[1] = token[1] == "-0x1p-2" ? "-0x1p-3" : "-0x1p-2";
      } else {
        token[0] = token[0] == 5 ? 6 : 5;
      }
    }
    changed += json.dump() + "\n";
  }
  ASSERT_EQ(ends, 2);
  folder_.write("run.log", changed);
  const ProgramResult result = replay({"--json"});
  EXPECT_EQ(result.exit_code, 5) << result.errors;
  const Json report = Json::parse(result.output);
  EXPECT_EQ(report["same"], 2);
  EXPECT_EQ(report["different"], 2);
  for (const Json& difference : report["differences"]) {
    const std::string what = difference["difference"];
    const char* want = difference["request"] == ids[0] ? "the log-probability of token 3 of the answer is "
                                                       : "token 3 of the answer is ";
    EXPECT_EQ(what.find(want), 0U) << what;
  }
}

// A log of whatever length is replayed as far as it goes: no kill leaves one that is of no use.
TEST_F(Replay, TakesATornLog) {
  run_job();
  const std::string text = read_file(log_);
  folder_.write("run.log", text.substr(0, text.size() - 10));
  const ProgramResult torn = replay({"--json"});
  EXPECT_EQ(torn.exit_code, 0) << torn.errors;
  const Json report = Json::parse(torn.output);
  EXPECT_EQ(report["torn"], true);
  EXPECT_EQ(report["same"], 3);
  EXPECT_EQ(report["unfinished"], 1);
  EXPECT_NE(torn.errors.find("torn"), std::string::npos) << torn.errors;
  folder_.write("run.log", text.substr(0, 20));
  const ProgramResult nothing = replay();
  EXPECT_EQ(nothing.exit_code, 3);
  EXPECT_NE(nothing.errors.find("no whole line"), std::string::npos) << nothing.errors;
}

TEST_F(Replay, SaysWhatIsNotTheSame) {
  run_job();
  std::string text = read_file(log_);
  Json header = Json::parse(text.substr(0, text.find('\n')));
  const std::string rest = text.substr(text.find('\n'));
  header["model"] = "0";
  header["backend"] = "cpu/none";
  folder_.write("run.log", header.dump() + rest);
  const ProgramResult result = replay();
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.errors.find("the log is of other weights"), std::string::npos) << result.errors;
  EXPECT_NE(result.errors.find("the log was made with cpu/none"), std::string::npos) << result.errors;
}

TEST_F(Replay, RefusesWhatIsNoLog) {
  run_job();
  const ProgramResult again = deepinfer({"batch", (folder_ / "requests.jsonl").string(), "-o",
                                         (folder_ / "other.jsonl").string(), "--request-log", log_.string()});
  EXPECT_EQ(again.exit_code, 3) << again.errors;
  EXPECT_NE(again.errors.find("is there already"), std::string::npos) << again.errors;
  const std::string text = read_file(log_);
  folder_.write("run.log", text + "{\"end\":1}\n");
  const ProgramResult broken = replay();
  EXPECT_EQ(broken.exit_code, 3);
  EXPECT_NE(broken.errors.find(": line " + std::to_string(std::count(text.begin(), text.end(), '\n') + 1)),
            std::string::npos)
      << broken.errors;
  EXPECT_EQ(deepinfer({"replay", (folder_ / "none").string()}).exit_code, 3);
  EXPECT_EQ(replay({"--speed", "fast"}).exit_code, 2);
}

}  // namespace
}  // namespace deepinfer::cli
