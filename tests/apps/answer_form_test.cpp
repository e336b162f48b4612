// `deepinfer run` with tools, a schema or an expression: what is answered fits, and nothing but the request changes it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "program.h"
#include "temporary_folder.h"

namespace deepinfer::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "weather", "strict": true, "parameters": {"type": "object",
    "properties": {"unit": {"type": "string", "enum": ["C", "F"]}}, "required": ["unit"], "additionalProperties": false}}},
  {"type": "function", "function": {"name": "climate", "strict": true, "parameters": {"type": "object",
    "properties": {"years": {"type": "integer", "minimum": 1, "maximum": 30}}, "required": ["years"],
    "additionalProperties": false}}}])";
constexpr const char* kSchema = R"({"type": "object", "properties": {"city": {"type": "string", "maxLength": 8},
    "warm": {"type": "boolean"}}, "required": ["city", "warm"]})";

class AnswerForm : public ::testing::Test {
 protected:
  Json answer(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"run", "How warm is it?", "--json", "--max-tokens", "300"});
    const ProgramResult result = deepinfer(std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return Json::parse(result.output);
  }
  ProgramResult refused(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"run", "How warm is it?"});
    return deepinfer(std::move(arguments));
  }

  TemporaryFolder folder_;
  std::string tools_ = folder_.write("tools.json", kTools).string();
  std::string schema_ = folder_.write("schema.json", kSchema).string();
};

// What the answer is besides how fast it came.
Json said(const Json& object) {
  Json same;
  for (const char* field : {"content", "reasoning", "tool_calls", "finish_reason"})
    same[field] = object.contains(field) ? object[field] : Json();
  return same;
}

TEST_F(AnswerForm, RequiredCallsFitTheirTools) {
  for (const char* seed : {"1", "2", "3"}) {
    // Hot: without the grammar nothing of this would be well-formed.
    const Json object = answer({"--tools", tools_, "--tool-choice", "required", "--temperature", "4", "--seed", seed});
    if (object["finish_reason"] != "tool_calls") continue;  // cut off in a long row of calls
    ASSERT_FALSE(object["tool_calls"].empty());
    for (const Json& call : object["tool_calls"]) {
      const Json arguments = Json::parse(call["arguments"].get<std::string>());
      ASSERT_EQ(arguments.size(), 1U) << call.dump();
      if (call["name"] == "weather") {
        EXPECT_TRUE(arguments["unit"] == "C" || arguments["unit"] == "F") << call.dump();
      } else {
        EXPECT_EQ(call["name"], "climate");
        EXPECT_TRUE(arguments["years"] >= 1 && arguments["years"] <= 30) << call.dump();
      }
    }
  }
}

TEST_F(AnswerForm, ANameChoosesTheTool) {
  const Json object = answer({"--tools", tools_, "--tool-choice", "climate", "--temperature", "0"});
  EXPECT_EQ(object["finish_reason"], "tool_calls") << object.dump();
  for (const Json& call : object["tool_calls"]) EXPECT_EQ(call["name"], "climate");
  const Json thinking = answer({"--tools", tools_, "--tool-choice", "climate", "--temperature", "0", "--thinking"});
  EXPECT_FALSE(thinking["reasoning"].is_null());
  for (const Json& call : thinking["tool_calls"]) EXPECT_EQ(call["name"], "climate");
  EXPECT_FALSE(answer({"--tools", tools_, "--tool-choice", "none", "--temperature", "0"}).contains("tool_calls"));
}

TEST_F(AnswerForm, ContentFitsItsSchema) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{},
                                               {"--thinking"},
                                               {"--raw"},
                                               {"--tools", folder_
                                                               .write("loose.json", R"([
            {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}])")
                                                               .string()}}) {
    std::vector<std::string> arguments{"--json-schema", schema_, "--temperature", "2", "--seed", "5"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Json object = answer(arguments);
    if (object["finish_reason"] != "stop") continue;  // reasoning that did not end, or a call
    const Json content = Json::parse(object["content"].get<std::string>());
    EXPECT_EQ(content.size(), 2U) << content.dump();
    EXPECT_LE(content["city"].get<std::string>().size(), 32U);
    EXPECT_TRUE(content["warm"].is_boolean());
  }
  EXPECT_EQ(answer({"--json-schema", schema_, "--temperature", "0"})["finish_reason"], "stop");
}

TEST_F(AnswerForm, ContentMatchesItsExpression) {
  const std::string expression = "(warm|cold), [0-9]{2} (C|F)";
  for (const char* seed : {"1", "2", "3"}) {
    const std::string content = answer({"--regex", expression, "--temperature", "3", "--seed", seed})["content"];
    EXPECT_TRUE(std::regex_match(content, std::regex(expression))) << content;
  }
}

TEST_F(AnswerForm, NeitherDraftsNorThreadsNorTheEngineChangeIt) {
  const std::vector<std::vector<std::string>> forms{{"--json-schema", schema_},
                                                    {"--tools", tools_, "--tool-choice", "required"},
                                                    {"--tools", tools_, "--thinking"},
                                                    {"--regex", "[a-z ]{5,40}"}};
  for (const std::vector<std::string>& form : forms) {
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), form.begin(), form.end());
      more.insert(more.end(), {"--temperature", "1.5", "--seed", "9"});
      return said(answer(more));
    };
    const Json want = with({"--draft-tokens", "0"});
    EXPECT_EQ(with({"--draft-tokens", "5"}), want) << form[0];
    EXPECT_EQ(with({"--threads", "1"}), want) << form[0];
    EXPECT_EQ(with({"--kv-cache", (folder_ / "kv").string()}), want) << form[0];
  }
}

// The same request as a batch line: one grammar, one answer.
TEST_F(AnswerForm, ABatchAnswersTheSame) {
  const Json tools = Json::parse(kTools);
  Json body{{"model", "DeepSeek-V4.1-Flash"},
            {"messages", {{{"role", "user"}, {"content", "How warm is it?"}}}},
            {"max_tokens", 300},
            {"temperature", 0},
            {"thinking", {{"type", "disabled"}}},
            {"tools", tools},
            {"tool_choice", "required"}};
  const Json line{{"custom_id", "1"}, {"method", "POST"}, {"url", "/v1/chat/completions"}, {"body", body}};
  const std::string input = folder_.write("in.jsonl", line.dump() + "\n").string();
  const std::string output = (folder_ / "out.jsonl").string();
  const ProgramResult batch = deepinfer({"batch", input, "-o", output});
  ASSERT_EQ(batch.exit_code, 0) << batch.errors;
  const Json choice = Json::parse(read_file(output))["response"]["body"]["choices"][0];
  const Json alone = answer({"--tools", tools_, "--tool-choice", "required", "--temperature", "0", "--top-p", "1"});
  ASSERT_EQ(choice["message"]["tool_calls"].size(), alone["tool_calls"].size()) << choice.dump();
  for (size_t i = 0; i < alone["tool_calls"].size(); ++i) {
    EXPECT_EQ(choice["message"]["tool_calls"][i]["function"]["name"], alone["tool_calls"][i]["name"]);
    EXPECT_EQ(choice["message"]["tool_calls"][i]["function"]["arguments"], alone["tool_calls"][i]["arguments"]);
  }
}

TEST_F(AnswerForm, WhatIsWrongIsNamed) {
  const std::string list = folder_.write("list.json", "[1").string();
  const std::string contains = folder_.write("contains.json", R"({"properties": {"a": {"contains": {}}}})").string();
  const struct {
    std::vector<std::string> arguments;
    int code;
    const char* part;
  } kWrong[] = {
      {{"--tool-choice", "required"}, 2, "--tools"},
      {{"--tools", tools_, "--raw"}, 2, "--raw"},
      {{"--json-schema", schema_, "--regex", "a"}, 2, "--regex"},
      {{"--json-schema", schema_, "--ignore-end"}, 2, "--ignore-end"},
      {{"--tools", tools_, "--tool-choice", "nowhere"}, 3, "--tool-choice nowhere"},
      {{"--tools", tools_, "--json-schema", schema_}, 3, "--json-schema"},  // strict tools take no response format
      {{"--json-schema", list}, 3, "--json-schema"},
      {{"--json-schema", contains}, 4, "/properties/a: the keyword contains is not supported"},
      {{"--regex", "(a"}, 3, "regular expression"},
      {{"--regex", "(?=a)"}, 4, "regular expression"},
  };
  for (const auto& [arguments, code, part] : kWrong) {
    const ProgramResult result = refused(arguments);
    EXPECT_EQ(result.exit_code, code) << part << ": " << result.errors;
    EXPECT_NE(result.errors.find(part), std::string::npos) << part << ": " << result.errors;
    EXPECT_EQ(result.output, "");
  }
}

}  // namespace
}  // namespace deepinfer::cli
