// `deepinfer batch`: every line has one result, in order, whatever interrupts the job.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "program.h"
#include "temporary_folder.h"

namespace deepinfer::cli {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

std::string chat_line(const std::string& id, const std::string& text, int max_tokens = 12,
                      Json extra = Json::object()) {
  Json body{{"model", "DeepSeek-V4.1-Flash"},
            {"messages", {{{"role", "user"}, {"content", text}}}},
            {"max_tokens", max_tokens},
            {"thinking", {{"type", "disabled"}}}};
  body.update(extra);
  return Json{{"custom_id", id}, {"method", "POST"}, {"url", "/v1/chat/completions"}, {"body", body}}.dump() + "\n";
}

std::string request_line(const std::string& id, const std::string& url, Json body) {
  return Json{{"custom_id", id}, {"method", "POST"}, {"url", url}, {"body", std::move(body)}}.dump() + "\n";
}

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_all(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

std::vector<Json> results_of(const fs::path& path) {
  std::vector<Json> list;
  std::istringstream lines(read_all(path));
  for (std::string line; std::getline(lines, line);) list.push_back(Json::parse(line));
  return list;
}

// Reproducible to the byte: a given time, and no cached tokens in the usage.
std::vector<std::string> batch_arguments(const fs::path& input, const fs::path& output,
                                         std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {
      "batch", input.string(),  "-o",   output.string(),    "--created", "1", "--no-prefix-cache",
      "-q",    "--max-context", "4096", "--draft-schedule", "all"};  // nothing is measured at start
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

class Batch : public testing::Test {
 protected:
  fs::path input(const std::string& text) { return folder_.write("requests.jsonl", text); }
  fs::path output() const { return folder_.path() / "results.jsonl"; }
  ProgramResult run(const fs::path& requests, std::vector<std::string> more = {}) {
    return deepinfer(batch_arguments(requests, output(), std::move(more)));
  }
  TemporaryFolder folder_;
};

TEST_F(Batch, EveryProtocolIsAnswered) {
  const auto requests = input(
      chat_line("chat", "What is 3 + 4?") +
      request_line("text", "/v1/completions",
                   {{"model", "DeepSeek-V4.1-Flash"}, {"prompt", "The sky is"}, {"max_tokens", 5}, {"logprobs", 2}}) +
      request_line("responses", "/v1/responses",
                   {{"model", "DeepSeek-V4.1-Flash"},
                    {"input", "Hi"},
                    {"max_output_tokens", 8},
                    {"reasoning", {{"effort", "none"}}}}) +
      request_line("messages", "/v1/messages",
                   {{"model", "DeepSeek-V4.1-Flash"},
                    {"max_tokens", 8},
                    {"thinking", {{"type", "disabled"}}},
                    {"messages", {{{"role", "user"}, {"content", "Hi"}}}}}) +
      request_line("ids", "/v1/completions",
                   {{"model", "DeepSeek-V4.1-Flash"}, {"prompt", {0, 100, 200}}, {"max_tokens", 3}}));
  const auto run_result = run(requests);
  ASSERT_EQ(run_result.exit_code, 0) << run_result.errors;
  EXPECT_EQ(run_result.output, "");
  const auto results = results_of(output());
  ASSERT_EQ(results.size(), 5u);
  const char* objects[] = {"chat.completion", "text_completion", "response", nullptr, "text_completion"};
  const char* ids[] = {"chat", "text", "responses", "messages", "ids"};
  std::set<std::string> unique;
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i]["custom_id"], ids[i]);
    EXPECT_EQ(results[i]["response"]["status_code"], 200) << results[i].dump();
    EXPECT_TRUE(results[i]["error"].is_null());
    if (objects[i] != nullptr) {
      EXPECT_EQ(results[i]["response"]["body"]["object"], objects[i]);
    }
    EXPECT_TRUE(unique.insert(results[i]["id"]).second);
  }
  EXPECT_EQ(results[3]["response"]["body"]["type"], "message");
  const Json& logprobs = results[1]["response"]["body"]["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"].size(), results[1]["response"]["body"]["usage"]["completion_tokens"]);
  EXPECT_EQ(logprobs["top_logprobs"].size(), logprobs["tokens"].size());
  EXPECT_EQ(results[4]["response"]["body"]["usage"]["prompt_tokens"], 3);
}

TEST_F(Batch, AnAnswerIsThatOfRun) {
  const std::string question = "What is 12 + 30?";
  const auto requests = input(chat_line("a", question, 20, {{"temperature", 0}}));
  ASSERT_EQ(run(requests).exit_code, 0);
  const auto alone = deepinfer({"run", question, "--temperature", "0", "--max-tokens", "20", "--json"});
  ASSERT_EQ(alone.exit_code, 0) << alone.errors;
  EXPECT_EQ(results_of(output())[0]["response"]["body"]["choices"][0]["message"]["content"],
            Json::parse(alone.output)["content"]);
}

TEST_F(Batch, WhatIsNoRequestIsAnErrorOnItsLine) {
  const std::string good = chat_line("good", "Hi", 2);
  const auto requests = input(
      "not json\n" + good + "[]\n" + "{\"custom_id\": 7}\n" + request_line("url", "/v1/embeddings", Json::object()) +
      "\n   \n" + chat_line("range", "Hi", 2, {{"temperature", 3}}) + "{\"custom_id\": \"\xFF\"}\n" +
      chat_line("name", "Hi", 2, {{"model", "gpt"}}) + chat_line("long", "Hi", 390000) + "\xEF\xBB\xBF{}\n" +
      request_line("token", "/v1/completions",
                   {{"model", "DeepSeek-V4.1-Flash"}, {"prompt", {99999999}}, {"max_tokens", 3}}) +
      request_line("get", "/v1/completions", Json::array()) + good.substr(0, good.size() - 1));
  const auto run_result = run(requests);
  ASSERT_EQ(run_result.exit_code, 0) << run_result.errors;
  const auto results = results_of(output());
  struct Expected {
    Json custom_id;
    const char* code;  // of a line that is no request
    int status;        // else
  };
  const Expected expected[] = {{nullptr, "invalid_json", 0}, {"good", nullptr, 200},    {nullptr, "invalid_line", 0},
                               {nullptr, "invalid_line", 0}, {"url", "unknown_url", 0}, {"range", nullptr, 400},
                               {nullptr, "invalid_json", 0}, {"name", nullptr, 400},    {"long", nullptr, 400},
                               {nullptr, "invalid_json", 0}, {"token", nullptr, 400},   {"get", "invalid_line", 0},
                               {"good", nullptr, 200}};
  ASSERT_EQ(results.size(), std::size(expected));
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i]["custom_id"], expected[i].custom_id) << i;
    if (expected[i].code != nullptr) {
      EXPECT_EQ(results[i]["error"]["code"], expected[i].code) << results[i].dump();
      EXPECT_TRUE(results[i]["response"].is_null());
    } else {
      EXPECT_EQ(results[i]["response"]["status_code"], expected[i].status) << results[i].dump();
      EXPECT_TRUE(results[i]["error"].is_null());
    }
  }
}

TEST_F(Batch, StructuredOutputHolds) {
  const Json schema{{"type", "json_schema"},
                    {"json_schema",
                     {{"name", "answer"},
                      {"schema",
                       {{"type", "object"},
                        {"properties", {{"sum", {{"type", "integer"}}}, {"odd", {{"type", "boolean"}}}}},
                        {"required", {"sum", "odd"}},
                        {"additionalProperties", false}}}}}};
  const auto requests = input(
      chat_line("schema", "What is 3 + 4?", 100, {{"response_format", schema}}) +
      chat_line("regex", "What is 3 + 4?", 100, {{"response_format", {{"type", "regex"}, {"regex", "[ab]{3}"}}}}) +
      chat_line("bad", "Hi", 10, {{"response_format", {{"type", "regex"}, {"regex", "(a"}}}}));
  const auto run_result = run(requests);
  ASSERT_EQ(run_result.exit_code, 0) << run_result.errors;
  const auto results = results_of(output());
  ASSERT_EQ(results.size(), 3u);
  const auto content = [&](size_t i) {
    return results[i]["response"]["body"]["choices"][0]["message"]["content"].get<std::string>();
  };
  ASSERT_EQ(results[0]["response"]["status_code"], 200) << results[0].dump();
  const Json answer = Json::parse(content(0));
  EXPECT_TRUE(answer["sum"].is_number_integer() && answer["odd"].is_boolean() && answer.size() == 2) << answer.dump();
  ASSERT_EQ(results[1]["response"]["status_code"], 200) << results[1].dump();
  EXPECT_EQ(content(1).size(), 3u);
  EXPECT_EQ(content(1).find_first_not_of("ab"), std::string::npos) << content(1);
  EXPECT_EQ(results[2]["response"]["status_code"], 400) << results[2].dump();
}

TEST_F(Batch, RequiredCallsAreMade) {
  const auto function = [](const std::string& name, Json parameters) {
    return Json{{"name", name}, {"strict", true}, {"parameters", std::move(parameters)}};
  };
  const Json parameters{{"type", "object"},
                        {"properties", {{"unit", {{"type", "string"}, {"enum", {"C", "F"}}}}}},
                        {"required", {"unit"}},
                        {"additionalProperties", false}};
  const Json tools{{{"type", "function"}, {"function", function("weather", parameters)}},
                   {{"type", "function"}, {"function", function("climate", parameters)}}};
  Json flat = function("weather", parameters);
  flat["type"] = "function";
  const Json named{{"type", "function"}, {"function", {{"name", "climate"}}}};
  const auto requests =
      input(chat_line("required", "How warm is it?", 200, {{"tools", tools}, {"tool_choice", "required"}}) +
            chat_line("named", "How warm is it?", 200, {{"tools", tools}, {"tool_choice", named}}) +
            chat_line("unknown", "How warm is it?", 200,
                      {{"tools", tools}, {"tool_choice", {{"type", "function"}, {"function", {{"name", "x"}}}}}}) +
            request_line("responses", "/v1/responses",
                         {{"model", "DeepSeek-V4.1-Flash"},
                          {"input", "How warm is it?"},
                          {"max_output_tokens", 200},
                          {"reasoning", {{"effort", "none"}}},
                          {"tools", {flat}},
                          {"tool_choice", "required"}}));
  const auto run_result = run(requests);
  ASSERT_EQ(run_result.exit_code, 0) << run_result.errors;
  const auto results = results_of(output());
  ASSERT_EQ(results.size(), 4u);
  for (const size_t i : {0u, 1u}) {
    const Json& choice = results[i]["response"]["body"]["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "tool_calls") << results[i].dump();
    for (const Json& call : choice["message"]["tool_calls"]) {
      const Json arguments = Json::parse(call["function"]["arguments"].get<std::string>());
      EXPECT_TRUE(arguments == Json({{"unit", "C"}}) || arguments == Json({{"unit", "F"}})) << call.dump();
      if (i == 1) {
        EXPECT_EQ(call["function"]["name"], "climate");
      }
    }
  }
  EXPECT_EQ(results[2]["response"]["status_code"], 400);
  EXPECT_NE(results[2].dump().find("no function named 'x'"), std::string::npos) << results[2].dump();
  const Json& output = results[3]["response"]["body"]["output"];
  ASSERT_FALSE(output.empty()) << results[3].dump();
  EXPECT_EQ(output[0]["type"], "function_call") << results[3].dump();
}

TEST_F(Batch, EmptyInputIsAnEmptyJob) {
  for (const char* text : {"", "\n", "  \n\n"}) {
    EXPECT_EQ(run(input(text)).exit_code, 0);
    EXPECT_EQ(read_all(output()), "");
  }
}

TEST_F(Batch, ALineOfAnyLengthTakesBoundedMemory) {
  const fs::path requests = input(chat_line("a", "Hi", 2));
  {
    std::ofstream out(requests, std::ios::app);
    const std::string piece(1 << 20, 'x');
    for (int i = 0; i < 400; ++i) out << piece;
    out << "\n" << chat_line("b", "Hi", 2);
  }
  const auto run_result = run(requests, {"--cache-memory", "0.05"});
  ASSERT_EQ(run_result.exit_code, 0) << run_result.errors;
  const auto results = results_of(output());
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[1]["error"]["code"], "line_too_long");
  EXPECT_EQ(results[2]["custom_id"], "b");
  EXPECT_LT(run_result.peak_rss_kib, 390 << 10);  // less than the line
}

std::string many_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    // The same custom_id twice in a row, and answers of very different lengths.
    text += chat_line("id" + std::to_string(i / 2), "Count from " + std::to_string(i), i % 7 == 0 ? 60 : 3 + i % 5);
    if (i % 10 == 4) text += "broken " + std::to_string(i) + "\n";
  }
  return text;
}

// Starts the program and kills it after a while; false when it had ended before.
bool run_and_kill(const std::vector<std::string>& arguments, std::chrono::milliseconds life) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int nowhere = ::open("/dev/null", O_RDWR);
    for (const int descriptor : {0, 1, 2}) ::dup2(nowhere, descriptor);
    std::vector<std::string> copy = arguments;
    copy.insert(copy.begin(), DEEPINFER_PROGRAM);
    std::vector<char*> pointers;
    for (std::string& argument : copy) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  std::this_thread::sleep_for(life);
  const bool ended = ::waitpid(child, nullptr, WNOHANG) == child;
  if (ended) return false;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return true;
}

TEST_F(Batch, KilledAtAnyTimeItGoesOnAsIfNothingHadBeen) {
  const auto requests = input(many_lines(60));
  ASSERT_EQ(run(requests).exit_code, 0);
  const std::string whole = read_all(output());
  EXPECT_EQ(std::count(whole.begin(), whole.end(), '\n'), 66);

  const fs::path interrupted = folder_.path() / "interrupted.jsonl";
  const auto arguments = batch_arguments(requests, interrupted, {"--max-sequences", "2"});
  std::mt19937 random(7);
  int kills = 0;
  while (kills < 10 && run_and_kill(arguments, std::chrono::milliseconds(20 + random() % 300))) {
    ++kills;
    const std::string so_far = read_all(interrupted);
    EXPECT_EQ(whole.substr(0, so_far.size()), so_far);
  }
  const auto last = deepinfer(arguments);
  ASSERT_EQ(last.exit_code, 0) << last.errors;
  EXPECT_EQ(read_all(interrupted), whole);
}

TEST_F(Batch, ATornLastLineIsCutOffWhereverItWasTorn) {
  const auto requests = input(chat_line("a", "Hi", 3) + chat_line("a", "Hi", 3) + "broken\n");
  ASSERT_EQ(run(requests).exit_code, 0);
  const std::string whole = read_all(output());
  const size_t first = whole.find('\n') + 1, second = whole.find('\n', first) + 1;
  for (const size_t length : {size_t{0}, size_t{1}, first - 1, first, first + 7, second, whole.size() - 1}) {
    write_all(output(), whole.substr(0, length));
    const auto again = run(requests);
    ASSERT_EQ(again.exit_code, 0) << again.errors;
    EXPECT_EQ(read_all(output()), whole) << length;
  }
  write_all(output(), whole.substr(0, first) + std::string(100, '\0'));  // blocks that never reached the disk
  ASSERT_EQ(run(requests).exit_code, 0);
  EXPECT_EQ(read_all(output()), whole);
}

TEST_F(Batch, AnotherInputOrAnotherFileIsAClearError) {
  const std::string a = chat_line("a", "Hi", 3), b = chat_line("b", "Hi", 3);
  const auto requests = input(a + b);
  ASSERT_EQ(run(requests).exit_code, 0);
  const std::string whole = read_all(output());
  const std::vector<std::string> changed = {b + a, a, chat_line("a", "Ho", 3) + b, chat_line("c", "Hi", 3) + a + b};
  for (const std::string& text : changed) {
    const auto again = run(input(text));
    EXPECT_EQ(again.exit_code, 3) << text;
    EXPECT_NE(again.errors.find("has the input changed?"), std::string::npos) << again.errors;
    EXPECT_EQ(read_all(output()), whole);
  }
  // More lines at the end are no change of what was answered.
  const auto more = run(input(a + b + chat_line("c", "Hi", 3)));
  EXPECT_EQ(more.exit_code, 0) << more.errors;
  EXPECT_TRUE(read_all(output()).starts_with(whole));
  for (const char* notes : {"notes of somebody", "notes\n"}) {
    write_all(output(), notes);
    EXPECT_EQ(run(input(a + b)).exit_code, 3);
    EXPECT_EQ(read_all(output()), notes);
  }
  EXPECT_EQ(deepinfer(batch_arguments(requests, requests)).exit_code, 2);
  EXPECT_EQ(deepinfer(batch_arguments(requests, "/dev/null")).exit_code, 3);
  EXPECT_EQ(deepinfer(batch_arguments("/no/such/file.jsonl", output())).exit_code, 3);
}

TEST_F(Batch, AFullDiskEndsTheJobAndItGoesOnLater) {
  const auto requests = input(many_lines(20));
  ASSERT_EQ(run(requests).exit_code, 0);
  const std::string whole = read_all(output());
  fs::remove(output());
  std::string command = "ulimit -f 4; trap '' XFSZ; exec " DEEPINFER_PROGRAM;  // 4 blocks of 512 bytes or 1 KiB
  for (const std::string& argument : batch_arguments(requests, output())) command += " '" + argument + "'";
  const auto full = run_program({.arguments = {"-c", command}, .program = "/bin/sh"});
  EXPECT_EQ(full.exit_code, 4);
  EXPECT_NE(full.errors.find("results.jsonl: cannot write: "), std::string::npos) << full.errors;
  const std::string part = read_all(output());
  EXPECT_LT(part.size(), whole.size());
  EXPECT_TRUE(part.empty() || part.ends_with('\n'));
  EXPECT_TRUE(whole.starts_with(part));
  ASSERT_EQ(run(requests).exit_code, 0);
  EXPECT_EQ(read_all(output()), whole);
}

TEST_F(Batch, StandardInputAndThreadsChangeNothing) {
  const std::string text = many_lines(8);
  const auto requests = input(text);
  ASSERT_EQ(run(requests).exit_code, 0);
  const std::string whole = read_all(output());
  const fs::path other = folder_.path() / "other.jsonl";
  const auto piped =
      deepinfer(batch_arguments("-", other,
                                {"--threads", "1", "--max-sequences", "3", "--draft-tokens", "0", "--step-rows", "40"}),
                text);
  ASSERT_EQ(piped.exit_code, 0) << piped.errors;
  EXPECT_EQ(read_all(other), whole);
}

TEST_F(Batch, ProgressIsPlainLines) {
  const auto requests = input(chat_line("a", "Hi", 3) + "broken\n");
  const auto shown = deepinfer({"batch", requests.string(), "-o", output().string()});
  ASSERT_EQ(shown.exit_code, 0) << shown.errors;
  EXPECT_NE(shown.errors.find("2 lines answered, 1 of them errors"), std::string::npos) << shown.errors;
  EXPECT_EQ(shown.errors.find('\r'), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::cli
