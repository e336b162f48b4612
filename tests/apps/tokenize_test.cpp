// `deepinfer tokenize`.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "program.h"
#include "temporary_folder.h"

namespace deepinfer::cli {
namespace {

using Json = nlohmann::json;

Json tokenize_json(std::vector<std::string> arguments, const std::string& input = "") {
  arguments.insert(arguments.begin(), {"tokenize", "--json"});
  const ProgramResult result = deepinfer(arguments, input);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  return Json::parse(result.output);
}

// Ids of the demonstration model's prompt "chat" (tests/data/model/greedy.jsonl).
TEST(Tokenize, SpellingsOfControlTokensAreTheTokens) {
  const std::string prompt = "<｜begin▁of▁sentence｜><｜User｜>Hello!<｜Assistant｜></think>";
  EXPECT_EQ(tokenize_json({prompt})["ids"], Json({0, 4, 2295, 23, 5, 7}));
  EXPECT_EQ(tokenize_json({}, prompt + "\n")["ids"], Json({0, 4, 2295, 23, 5, 7}));
  const Json plain = tokenize_json({"--plain", "<think>"});
  EXPECT_GT(plain["count"], 1);
  for (const Json& token : plain["tokens"]) EXPECT_FALSE(token.contains("control"));
}

TEST(Tokenize, CountAndTextAgree) {
  EXPECT_EQ(deepinfer({"tokenize", "--count", "Hello!"}).output, "2\n");
  EXPECT_EQ(deepinfer({"tokenize", "Hello!"}).output, "   2295  \"Hello\"\n     23  \"!\"\n");
  EXPECT_EQ(deepinfer({"tokenize", ""}).output, "");
}

TEST(Tokenize, DecodesIds) {
  EXPECT_EQ(deepinfer({"tokenize", "--decode", "0 4, 2295\n23"}).output, "<｜begin▁of▁sentence｜><｜User｜>Hello!\n");
  EXPECT_EQ(deepinfer({"tokenize", "--decode", "-"}, "[2295, 23]\n").output, "Hello!\n");
  EXPECT_EQ(tokenize_json({"--decode", "2295 23"})["text"], "Hello!");
  for (const char* ids : {"4096", "-1", "99999999999", "12a", "1.5"}) {
    const ProgramResult result = deepinfer({"tokenize", "--decode", ids});
    EXPECT_EQ(result.exit_code, 3) << ids;
    EXPECT_NE(result.errors.find("[0, 4095]"), std::string::npos) << result.errors;
  }
}

// Text comes back byte for byte, whatever its tokens tear apart.
TEST(Tokenize, RoundTrip) {
  const std::string text = "caf\u00e9 \u4f60\u597d \U0001F999 rfid501.go\ttab\n\nend";
  const Json object = tokenize_json({text});
  std::string ids;
  for (const Json& id : object["ids"]) ids += id.dump() + " ";
  EXPECT_EQ(tokenize_json({"--decode", ids})["text"], text);
  EXPECT_EQ(object["tokens"].size(), object["count"]);
}

}  // namespace
}  // namespace deepinfer::cli
