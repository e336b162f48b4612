// What single keywords and their combinations allow, and what is refused by name.
#include <gtest/gtest.h>

#include "byte_vocabulary.h"

namespace deepinfer {
namespace {

using Kind = GrammarSpec::Kind;

class SchemaRules : public ::testing::Test {
 protected:
  SchemaRules() : compiler_(GrammarCompiler::create(byte_vocabulary()).value()) {}

  void expect(const std::string& schema, const std::vector<std::string>& valid, const std::vector<std::string>& invalid,
              bool strict = true) {
    const GrammarSpec spec = spec_of(Kind::kJsonSchema, schema, strict);
    const Result<SharedGrammar> grammar = compiler_->compile(spec).wait();
    ASSERT_TRUE(grammar.ok()) << schema << ": " << grammar.status().to_string();
    for (const std::string& text : valid) EXPECT_TRUE(takes(grammar.value(), spec, text)) << schema << ": " << text;
    for (const std::string& text : invalid) EXPECT_FALSE(takes(grammar.value(), spec, text)) << schema << ": " << text;
  }
  std::string refusal(const std::string& schema) {
    return compiler_->compile(spec_of(Kind::kJsonSchema, schema)).wait().status().message();
  }

  std::unique_ptr<GrammarCompiler> compiler_;
};

TEST_F(SchemaRules, PatternAndLengthAreBothEnforced) {
  expect(R"({"type":"string","pattern":"^[a-z]+$","maxLength":3})", {R"("a")", R"("abc")"},
         {R"("")", R"("abcd")", R"("A")"});
  expect(R"({"type":"string","pattern":"^\\d{2}-\\d{2}$","maxLength":5})", {R"("12-34")"}, {R"("12-345")"});
  expect(R"({"type":"string","format":"date","minLength":10})", {R"("2024-02-29")"},
         {R"("2023-02-29")", R"("2024-2-9")"});
  EXPECT_EQ(refusal(R"({"type":"string","pattern":"^(ab|c)*$","maxLength":3})"),
            "schema: /: pattern together with maxLength is supported where the expression is one repeated class "
            "(^[a-z]*$) or keeps "
            "to the length anyway");
}

TEST_F(SchemaRules, WhiteSpaceIsBounded) {
  const char* const kSchema =
      R"({"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}},"required":["a"]})";
  const std::string deep = "{\n" + std::string(32, ' ') + "\"a\": [1, 2]}";
  expect(kSchema, {"{\"a\":[]}", "{ \"a\": [ 1, 2 ] }", "{\n\t\"a\": [\n\t\t1,\n\t\t2\n\t]\n}", deep},
         {" {\"a\":[]}", "{\"a\":[]} ", "{\"a\":[]}\n", "{  \"a\":[]}", "{\n\n\"a\":[]}", "{\"a\" :[]}",
          "{\"a\":[1 ,2]}", "{\n" + std::string(33, ' ') + "\"a\":[]}", "{\"a\":\r\n[]}"});
}

TEST_F(SchemaRules, StringsAreJson) {
  expect(R"({"type":"string"})", {R"("")", R"("\u00e9\n\/")", R"("\ud83d\ude00")", "\"\xF0\x9F\x98\x80\""},
         {"\"\n\"", R"("\ud83d")", R"("\x")", "\"\xED\xA0\x80\"", "\"\xFF\"", R"("a)"});
  expect(R"({"type":"string","maxLength":2})", {R"("\n\"")", R"("é北")", R"("\u001f")"}, {R"("abc")", R"("\u0061")"});
  expect(R"({"type":"string","pattern":"a.b"})", {R"("xxa\"bxx")", R"("a\\b")"}, {R"("ab")", R"("a\nb")"});
}

TEST_F(SchemaRules, NumbersAreExact) {
  expect(R"({"type":"integer","minimum":-12,"maximum":105})", {"-12", "-9", "0", "99", "100", "105"},
         {"-13", "-20", "106", "110", "1000", "00", "-0", "1.0"});
  expect(R"({"type":"integer","exclusiveMinimum":9.5})", {"10", "99", "100", "123456789012345678901"},
         {"9", "1", "0", "-10"});
  expect(R"({"type":"number","minimum":0.5,"exclusiveMaximum":2.25})",
         {"0.5", "0.50", "1", "1.999", "2.0", "2.2", "2.249"}, {"0.49", "0", "2.25", "2.3", "3", "-1", "1e0"});
  expect(R"({"type":"number","exclusiveMinimum":-1.5,"maximum":-1.25})", {"-1.49", "-1.25", "-1.250", "-1.3"},
         {"-1.5", "-1.2", "-1", "-2", "1.3"});
  expect(R"({"type":"number","minimum":3})", {"3", "3.0", "10.5", "4"}, {"2.9", "0", "-3"});
  expect(R"({"type":"integer","multipleOf":7})", {"0", "7", "-14", "700"}, {"8", "1", "-13", "07"});
  expect(R"({"type":"integer","multipleOf":10,"minimum":5,"maximum":45})", {"10", "40"}, {"0", "50", "15"});
  expect(R"({"type":"number","multipleOf":0.01})", {"1", "1.25", "1.250"}, {"1.255"});
}

TEST_F(SchemaRules, ObjectsAndArrays) {
  expect(
      R"({"type":"object","properties":{"a":{},"b":{}},"minProperties":1,"maxProperties":1,"additionalProperties":false})",
      {R"({"a":1})", R"({"b":1})"}, {"{}", R"({"a":1,"b":1})"});
  // A listed name cannot come back among the others, in no spelling.
  expect(R"({"type":"object","properties":{"ab":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
         {R"({"ab":1,"abc":"x","a":"y","":"z"})", R"({"x":"\u0041"})"},
         {R"({"ab":"x"})", R"({"ab":1,"ab":"x"})", R"({"\u0061b":"x"})", R"({"x":1})"});
  expect(R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"minItems":1})", {"[1]", R"([1,"a"])"},
         {"[]", R"(["a"])", R"([1,"a",2])"});
  expect(R"({"type":"array","prefixItems":[{"type":"integer"}],"items":{"type":"null"},"maxItems":3})",
         {"[]", "[1]", "[1,null,null]"}, {"[1,null,null,null]", "[1,2]"});
  expect(R"({"required":["a"],"properties":{"b":{"type":"null"}}})", {R"({"b":null,"a":3})", R"({"a":[]})"},
         {R"({"b":null})", R"({"a":1,"c":2})", "3"});
}

TEST_F(SchemaRules, Combinations) {
  expect(R"({"allOf":[{"type":"integer","minimum":2},{"maximum":4},{"enum":[1,3,"x",9]}]})", {"3"},
         {"1", "2", "9", "\"x\""});
  expect(R"({"$defs":{"n":{"type":"integer"}},"$ref":"#/$defs/n","minimum":3})", {"3"}, {"2", "\"a\""});
  expect(
      R"({"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["v","next"]})",
      {R"({"v":1,"next":{"v":2,"next":null}})"}, {R"({"v":1})", R"({"v":1,"next":{"v":"x","next":null}})"});
  expect(R"({"oneOf":[{"type":"string"},{"type":"integer","maximum":0},{"type":"integer","exclusiveMinimum":0}]})",
         {"\"a\"", "0", "1"}, {"true"});
  EXPECT_NE(refusal(R"({"oneOf":[{"type":"integer"},{"type":"number","minimum":2}]})").find("0 and 1 may overlap"),
            std::string::npos);
  // Closed by strictness only: to the letter of JSON Schema {"a":1} fits both.
  EXPECT_NE(
      refusal(R"({"oneOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}],"type":"object"})").find("may overlap"),
      std::string::npos);
}

TEST_F(SchemaRules, WhatIsNotEnforcedIsNamed) {
  for (const char* keyword :
       {"not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies", "contains", "minContains",
        "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "nullable", "no_such_keyword"})
    EXPECT_EQ(refusal("{\"properties\":{\"a\":{\"" + std::string(keyword) + "\":{}}}}"),
              std::string("schema: /properties/a: the keyword ") + keyword + " is not supported");
  EXPECT_NE(refusal(R"({"type":"array","uniqueItems":true})").find("uniqueItems is supported for"), std::string::npos);
  EXPECT_NE(refusal(R"({"type":"string","format":"iri"})").find("the format iri is not supported"), std::string::npos);
  EXPECT_NE(refusal(R"x({"type":"string","pattern":"a(?=b)"})x").find("character 2: look-ahead"), std::string::npos);
  EXPECT_NE(refusal(R"({"$ref":"other.json"})").find("only references into the schema itself"), std::string::npos);
  EXPECT_NE(refusal(R"({"$ref":"#/$defs/none"})").find("leads nowhere"), std::string::npos);
  EXPECT_NE(refusal(R"({"type":"text"})").find("type has no valid value"), std::string::npos);
  EXPECT_NE(refusal(R"({"type":"object","additionalProperties":true,"minProperties":3})").find("minProperties of 3"),
            std::string::npos);
}

}  // namespace
}  // namespace deepinfer
