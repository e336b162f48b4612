// Texts that are meant to break a grammar engine: each is an error of its request, with the place, and soon.
#include <gtest/gtest.h>

#include "byte_vocabulary.h"

namespace deepinfer {
namespace {

using Kind = GrammarSpec::Kind;

class HostileInput : public ::testing::Test {
 protected:
  HostileInput() {
    GrammarCompilerOptions options;
    options.threads = 1;
    options.limits.time = std::chrono::milliseconds(5000);
    compiler_ = GrammarCompiler::create(byte_vocabulary(), options).value();
  }
  Status compile(Kind kind, std::string text) {
    return compiler_->compile(spec_of(kind, std::move(text))).wait().status();
  }

  std::unique_ptr<GrammarCompiler> compiler_;
};

std::string repeat(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

void expect_refused(const Status& status, std::string_view part) {
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kUnsupported ||
              status.code() == StatusCode::kResourceExhausted)
      << status.to_string();
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST_F(HostileInput, NestingIsRefusedWithItsLimit) {
  expect_refused(compile(Kind::kRegex, repeat("(", 10'000)), "nested deeper than 100");
  expect_refused(compile(Kind::kRegex, repeat("(", 60'000)), "at most 16384");
  expect_refused(compile(Kind::kEbnf, "root ::= " + repeat("(", 60'000) + "\"a\"" + repeat(")", 60'000)),
                 "nested deeper than 64");
  expect_refused(compile(Kind::kJsonSchema, repeat("[", 100'000)), "nested deeper than 64");
  expect_refused(compile(Kind::kJsonSchema, repeat("{\"items\":", 20'000)), "nested deeper than 64");
  expect_refused(compile(Kind::kJsonSchema, R"({"pattern": ")" + repeat("(", 10'000) + "\"}"),
                 "nested deeper than 100");
}

TEST_F(HostileInput, CountsAreBounded) {
  expect_refused(compile(Kind::kRegex, "a{1,1000000000}"), "a count is above 10000");
  expect_refused(compile(Kind::kRegex, "a{99999999999999999999}"), "a count is above");
  expect_refused(compile(Kind::kRegex, "a{2,1}"), "bounds reversed");
  expect_refused(compile(Kind::kRegex, "((a{1000}){1000}){1000}"), "more than 50000");
  expect_refused(compile(Kind::kEbnf, "root ::= \"a\"{1,1000000000}"), "line 1, column 16: a count is above");
  expect_refused(compile(Kind::kEbnf, "root ::= \"a\"{2,1}"), "bounds reversed");
  expect_refused(compile(Kind::kEbnf, "root ::= \"a\"{2,-1}"), "a count is missing");
  expect_refused(compile(Kind::kJsonSchema, R"({"type":"string","minLength":1e12})"), "minLength above");
  expect_refused(compile(Kind::kJsonSchema, R"({"type":"array","items":{},"minItems":1000000000})"), "minItems above");
  expect_refused(compile(Kind::kJsonSchema, R"({"type":"array","items":{},"minItems":-1})"),
                 "minItems has no valid value");
}

TEST_F(HostileInput, TextThatIsNotTextIsRefused) {
  expect_refused(compile(Kind::kRegex, "a\xFF"), "byte 2: not UTF-8");
  expect_refused(compile(Kind::kEbnf, "root ::= \"\xC0\x80\""), "byte 11: not UTF-8");
  expect_refused(compile(Kind::kJsonSchema, "{\"pattern\": \"\xED\xA0\x80\"}"), "not UTF-8");
  expect_refused(compile(Kind::kJsonSchema, "{\"type\": \"string\""), "not JSON");
  expect_refused(compile(Kind::kJsonSchema, "NaN"), "not JSON");
  expect_refused(compile(Kind::kJsonSchema, "3"), "an object or a boolean");
  expect_refused(compile(Kind::kJsonSchema, R"({"type":"string","type":"number"})"), "stands twice");
  expect_refused(compile(Kind::kEbnf, std::string("root ::= \"a\"\0 junk", 18)), "unexpected character");
}

TEST_F(HostileInput, FaultsHaveTheirPlace) {
  expect_refused(compile(Kind::kEbnf, "start ::= \"a\""), "no rule named root");
  expect_refused(compile(Kind::kEbnf, "root ::= a\n"), "line 1, column 10: the rule a is not defined");
  expect_refused(compile(Kind::kEbnf, "root ::= \"a\"\nb ::= ["), "line 2, column 7: a class is not closed");
  expect_refused(compile(Kind::kEbnf, "%llguidance {}"), "line 1, column 1");
  expect_refused(compile(Kind::kEbnf, "root ::= TagDispatch((\"a\", root))"), "TagDispatch is not supported");
  expect_refused(compile(Kind::kEbnf, "root ::= Token(999999999)"), "Token is not supported");
  expect_refused(compile(Kind::kEbnf, "root ::= \"a\" (= \"b\")"), "look-ahead is not supported");
  expect_refused(compile(Kind::kEbnf, "root ::= \"\\"), "");
  expect_refused(compile(Kind::kEbnf, ""), "no rule named root");
  expect_refused(compile(Kind::kRegex, "ab(?=c)"), "character 3: look-ahead is not supported");
  expect_refused(compile(Kind::kRegex, "(a)\\1"), "character 4: a back-reference is not supported");
  expect_refused(compile(Kind::kRegex, "[b-a]"), "character 2: a range has its ends reversed");
  expect_refused(compile(Kind::kRegex, "a)"), "character 2: unmatched )");
  expect_refused(compile(Kind::kRegex, "*"), "character 1: there is nothing to repeat");
}

TEST_F(HostileInput, GrammarsWithoutTextAreRefused) {
  expect_refused(compile(Kind::kEbnf, "root ::= root"), "no text at all can match");
  expect_refused(compile(Kind::kEbnf, "root ::= \"a\" b\nb ::= \"c\" root"), "no text at all can match");
  expect_refused(compile(Kind::kEbnf, "root ::= []"), "no text at all can match");
  expect_refused(compile(Kind::kJsonSchema, "false"), "no text at all can match");
  expect_refused(compile(Kind::kJsonSchema, R"({"$ref":"#"})").ok()
                     ? invalid_argument("no text at all")
                     : compile(Kind::kJsonSchema, R"({"anyOf":[{"$ref":"#"}]})"),
                 "no text at all");
  expect_refused(compile(Kind::kJsonSchema, R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})"),
                 "no text at all");
  expect_refused(compile(Kind::kJsonSchema, R"({"type":"integer","minimum":3,"maximum":2})"), "no text at all");
}

// Left recursion, empty loops, ambiguity: compiled, and matched within bounds.
TEST_F(HostileInput, OddGrammarsWork) {
  const auto accepts = [&](std::string text, std::string_view output) {
    const GrammarSpec spec = spec_of(Kind::kEbnf, std::move(text));
    const Result<SharedGrammar> grammar = compiler_->compile(spec).wait();
    EXPECT_TRUE(grammar.ok()) << spec.text << ": " << grammar.status().to_string();
    return grammar.ok() && takes(grammar.value(), spec, output);
  };
  EXPECT_TRUE(accepts("root ::= root \"a\" | \"a\"", "aaaa"));
  EXPECT_TRUE(accepts("root ::= root root | \"a\"", "aaaaaaaaaaaaaaaa"));
  EXPECT_TRUE(accepts("root ::= (((\"\")*)*)* \"b\"", "b"));
  EXPECT_TRUE(accepts("root ::= a\na ::= b | \"x\"\nb ::= a | \"y\"", "y"));
  EXPECT_TRUE(accepts("root ::= \"\\0\" [\\x00-\\U0010ffff]*", std::string_view("\0\xF4\x8F\xBF\xBF", 5)));
  EXPECT_FALSE(accepts("root ::= [^a]", "\xED\xA0\x80"));  // a surrogate is no character
}

TEST_F(HostileInput, ManyRulesAndAlternatives) {
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 2000; ++i)
    chain.append("r").append(std::to_string(i)).append(" ::= r").append(std::to_string(i + 1)).append("\n");
  chain += "r2000 ::= \"x\"\n";
  const Status deep = compile(Kind::kEbnf, chain);
  EXPECT_TRUE(deep.ok() || deep.code() == StatusCode::kResourceExhausted) << deep.to_string();
  std::string wide = "root ::= \"a0\"";
  for (int i = 1; i < 4000; ++i) wide.append(" | \"a").append(std::to_string(i)).append("\"");
  const Status many = compile(Kind::kEbnf, wide);
  EXPECT_TRUE(many.ok() || many.code() == StatusCode::kResourceExhausted) << many.to_string();
}

TEST_F(HostileInput, ExpressionsAreNotRunOnLongValues) {
  std::string schema = R"({"enum":[")" + repeat("a", 20'000) + R"("],"pattern":"^(a|b)*$"})";
  expect_refused(compile(Kind::kJsonSchema, schema), "so long a value beside such a pattern");
  // Many short ones: within the time of the compilation.
  schema = R"({"pattern":"^(a{1,9}|b)*c$","enum":["x")";
  for (int i = 0; i < 9000; ++i) schema.append(",\"").append(repeat("a", 30)).append(std::to_string(i)).append("\"");
  schema += "]}";
  expect_refused(compile(Kind::kJsonSchema, schema), "");
}

TEST_F(HostileInput, TowersOfAlternativesEndWithinTheBudget) {
  std::string schema = R"({"type":"string","maxLength":3})";
  for (int level = 0; level < 14; ++level)
    schema = R"({"anyOf":[)" + schema + R"(,{"type":"array","items":)" + schema + "}]}";
  expect_refused(compile(Kind::kJsonSchema, schema), "");
}

}  // namespace
}  // namespace deepinfer
