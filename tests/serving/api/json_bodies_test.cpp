// Bodies by the rules of RFC 8259, each case named after its rule, through a route: what the grammar allows is read,
// what it forbids is one 400, and the next request is answered as ever.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "serving/api/api_test_server.h"

namespace deepinfer::serving {
namespace {

struct BodyCase {
  std::string rule;
  std::string text;  // a value, or with `whole` a body
  bool whole = false;
};

std::string body_of(const BodyCase& one) {
  return one.whole ? one.text : "{\"prompt\":\"a\",\"x\":" + one.text + "}";
}

std::string nested(const std::string& open, const std::string& inside, const std::string& close, int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  text += inside;
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

std::vector<BodyCase> accepted() {
  std::vector<BodyCase> cases;
  for (const char* value : {"null", "true", "false", "{}", "[]", "\"\"", "[null]", "[[]]", "{\"\":0}",
                            "{\"a\":{\"b\":[]}}", "[1,\"a\",null,true,{},[]]", "{\"a\":1,\"a\":2}", "[[[[[]]]]]"})
    cases.push_back({"3: values", value});
  for (const char* number : {"0",
                             "-0",
                             "1",
                             "-1",
                             "10",
                             "123456789",
                             "0.0",
                             "-0.0",
                             "0.5",
                             "1.25",
                             "-1.5",
                             "1e1",
                             "1E1",
                             "1e+1",
                             "1e-1",
                             "0e0",
                             "0e+1",
                             "0.0e-0",
                             "1.5e300",
                             "-1e-308",
                             "4.9e-324",
                             "9007199254740993",
                             "18446744073709551615",
                             "-9223372036854775808",
                             "123456789012345678901234567890",
                             "0.1000000000000000055511151231257827",
                             "1e-1000"})
    cases.push_back({"6: numbers", number});
  for (const char* escape : {"\\\"",
                             "\\\\",
                             "\\/",
                             "\\b",
                             "\\f",
                             "\\n",
                             "\\r",
                             "\\t",
                             "\\u0000",
                             "\\u001F",
                             "\\u0041",
                             "\\u00e9",
                             "\\u20AC",
                             "\\uD7FF",
                             "\\uE000",
                             "\\uFFFF",
                             "\\uFFFE",
                             "\\uFDD0",
                             "\\uD83D\\uDE00",
                             "\\ud834\\udd1e",
                             "\\uDBFF\\uDFFF",
                             "\\uD800\\uDC00",
                             "\\u2028",
                             "\\u2029"})
    cases.push_back({"7: escapes", fmt::format("\"{}\"", escape)});
  for (const char* text : {"\x7F", "\u0080", "é", "€", "\u2028", "\u2029", "\uFEFF", "\uFFFD", "\uFFFF", "😀",
                           "\U0010FFFF", "/", "'", "a/*b*/c//d", "[{]}:,", "true", "\u00A0"})
    cases.push_back({"7: characters that need no escape", fmt::format("\"{}\"", text)});
  for (const char* space : {" ", "\t", "\n", "\r", " \t\r\n ", "\n\n\n"}) {
    const std::string s = space;
    cases.push_back({"2: white space around tokens", "[" + s + "1" + s + "," + s + "2" + s + "]"});
    cases.push_back({"2: white space around the value", s + "{\"prompt\":\"a\"}" + s, true});
    cases.push_back({"2: white space inside of an object", "{" + s + "\"a\"" + s + ":" + s + "1" + s + "}"});
  }
  for (const int depth : {2, 20, 100}) {
    cases.push_back({"9: nesting", nested("[", "", "]", depth)});
    cases.push_back({"9: nesting", nested("{\"a\":", "1", "}", depth)});
  }
  cases.push_back({"9: a long string", "\"" + std::string(100000, 'x') + "\""});
  cases.push_back({"9: many members", "[" + nested("0,", "0", "", 10000) + "]"});
  return cases;
}

std::vector<BodyCase> rejected() {
  std::vector<BodyCase> cases;
  for (int c = 0; c < 0x20; ++c)
    cases.push_back(
        {fmt::format("7: raw control character {:02x}", c), std::string("\"a") + static_cast<char>(c) + "\""});
  for (const char* escape :
       {"\\a",   "\\v",    "\\0",     "\\x41",   "\\'",     "\\e",     "\\U0041", "\\ ", "\\\n", "\\u", "\\u1",
        "\\u12", "\\u123", "\\uG000", "\\u00G0", "\\u 041", "\\u-041", "\\u{41}", "\\é", "\\1",  "\\N", "\\?"})
    cases.push_back({"7: no such escape", fmt::format("\"{}\"", escape)});
  for (const char* escape : {"\\uD800", "\\uDBFF", "\\uDC00", "\\uDFFF", "\\uD800a", "\\uD800\\n", "\\uD800\\u0041",
                             "\\uD800\\uD800", "\\uDC00\\uD800", "\\uD83D\\u", "\\uD83D\\uDE0"})
    cases.push_back({"8.2: lone surrogate", fmt::format("\"{}\"", escape)});
  for (const char* bytes : {"\x80",
                            "\xBF",
                            "\xC0\x80",
                            "\xC1\xBF",
                            "\xC2",
                            "\xE0\x80\x80",
                            "\xE0\x9F\xBF",
                            "\xE2\x82",
                            "\xED\xA0\x80",
                            "\xED\xBF\xBF",
                            "\xF0\x80\x80\x80",
                            "\xF0\x8F\xBF\xBF",
                            "\xF0\x9F\x98",
                            "\xF4\x90\x80\x80",
                            "\xF5\x80\x80\x80",
                            "\xF8\x88\x80\x80\x80",
                            "\xFC",
                            "\xFE",
                            "\xFF",
                            "\xC3(",
                            "\xE2(\xA1",
                            "\xF0(\x8C\xBC",
                            "a\xFFz"})
    cases.push_back({"8.1: not UTF-8", fmt::format("\"{}\"", bytes)});
  for (const char* number :
       {"01",     "-01", "00",   "+1",    "+",        "-",         ".5",  "5.",   "-.5",   "1.e1", "1e",
        "1e+",    "1E-", "1ee1", "1e1.5", "1.2.3",    "0x1",       "0b1", "0o7",  "1_000", "1,5e", "1a",
        "--1",    "-+1", "- 1",  "1 2",   "Infinity", "-Infinity", "NaN", "-NaN", "nan",   "inf",  "1e999",
        "-1e999", "1f",  "１",   "1.٠",   "#1",       "$1",        "1/2", "1+1",  "²"})
    cases.push_back({"6: no number", number});
  for (const char* word : {"True", "FALSE", "Null", "nul", "nulll", "tru", "truee", "fals",  "undefined", "none",
                           "None", "yes",   "t",    "a",   "'a'",   "`a`", "“a”",   "nu ll", "null0",     "true false"})
    cases.push_back({"3: no literal", word});
  for (const char* array : {"[",     "]",   "[1",  "[1,", "[1,]", "[,]", "[,1]",   "[1,,2]", "[1 2]", "[1;2]",
                            "[1:2]", "[1}", "[[]", "[]]", "(1)",  "<1>", "[\"a\"", "[1,\n]", "[...]", "[1,2,3,]"})
    cases.push_back({"5: no array", array});
  for (const char* object : {"{",
                             "}",
                             "{\"a\"",
                             "{\"a\":",
                             "{\"a\":}",
                             "{\"a\":1",
                             "{\"a\":1,",
                             "{\"a\":1,}",
                             "{,}",
                             "{,\"a\":1}",
                             "{\"a\" 1}",
                             "{\"a\",1}",
                             "{\"a\"::1}",
                             "{\"a\":1,,\"b\":2}",
                             "{\"a\":1 \"b\":2}",
                             "{a:1}",
                             "{'a':1}",
                             "{1:1}",
                             "{null:1}",
                             "{[]:1}",
                             "{\"a\":1]",
                             "{\"a\"=1}",
                             "{\"a\":1;\"b\":2}",
                             "{:1}",
                             "{\"a\":1:2}"})
    cases.push_back({"4: no object", object});
  for (const char* string : {"\"", "\"a", "a\"", "\"a\"b\"", "\"\\\"", "\"a\nb\"", "\"\"\"", "'", "\"\\"})
    cases.push_back({"7: no string", string});
  for (const char* space : {"\v", "\f", "\u00A0", "\u2028", "\u3000", "\u200B", "\uFEFF", "\x7F", "\\n", "\u0085"})
    cases.push_back({"2: no white space", "[1," + std::string(space) + "2]"});
  for (const char* comment : {"/* c */1", "1/* c */", "1//c\n", "#c\n1", "1--c", "<!-- c -->1"})
    cases.push_back({"no comments", comment});
  const std::string good = "{\"prompt\":\"a\"}";
  for (const char* after : {"x", "{}", "[]", ",", "}", "]", "1", "\"a\"", "null", ";", "//", "#", "\f"})
    cases.push_back({"2: text behind the value", good + after, true});
  cases.push_back({"2: a zero byte behind the value", good + std::string(1, '\0'), true});
  cases.push_back({"8.1: a byte order mark", "\uFEFF" + good, true});
  cases.push_back({"8.1: UTF-16, a byte order mark", std::string("\xFF\xFE{\0}\0", 6), true});
  cases.push_back({"8.1: UTF-16", std::string("{\0}\0", 4), true});
  cases.push_back({"2: nothing", "", true});
  cases.push_back({"2: white space alone", " \n\t ", true});
  cases.push_back({"9: nesting", nested("[", "", "]", 100000)});
  cases.push_back({"9: nesting that never ends", nested("[", "", "", 100000)});
  cases.push_back({"9: nesting of objects", nested("{\"a\":", "1", "}", 100000)});
  return cases;
}

TEST(JsonBodies, WhatTheGrammarAllowsIsRead) {
  ApiTestServer server(std::string("ok<｜end▁of▁sentence｜>"));
  const auto cases = accepted();
  EXPECT_GE(cases.size(), 95u);
  for (const BodyCase& one : cases)
    EXPECT_EQ(server.send("/tokenize", body_of(one))->status(), 200) << one.rule << ": " << body_of(one).substr(0, 80);
}

TEST(JsonBodies, WhatItForbidsIsOneError) {
  ApiTestServer server(std::string("ok<｜end▁of▁sentence｜>"));
  const auto cases = rejected();
  EXPECT_GE(cases.size(), 188u);
  for (const BodyCase& one : cases) {
    for (const char* path : {"/tokenize", "/v1/chat/completions", "/v1/messages"}) {
      const auto refused = server.send(path, body_of(one));
      ASSERT_EQ(refused->status(), 400) << path << ": " << one.rule << ": " << body_of(one).substr(0, 80);
      const Json error = refused->json()["error"];
      EXPECT_TRUE(error["message"].get<std::string>().starts_with("invalid JSON request")) << one.rule << error;
    }
  }
  EXPECT_EQ(server.send("/v1/chat/completions", chat_body())->status(), 200);
}

// A body of the right form whose values break a rule of theirs: numbers above all.
TEST(JsonBodies, ValuesOutsideTheirRange) {
  ApiTestServer server(std::string("ok<｜end▁of▁sentence｜>"));
  for (
      const char* more :
      {R"(,"n":1000000)",
       R"(,"n":0)",
       R"(,"n":-1)",
       R"(,"n":1.5)",
       R"(,"temperature":-0.1)",
       R"(,"temperature":"NaN")",
       R"(,"temperature":2.1)",
       R"(,"top_p":0)",
       R"(,"top_p":1e-60)",
       R"(,"max_tokens":0)",
       R"(,"max_tokens":-1)",
       R"(,"max_tokens":9223372036854775808)",
       R"(,"max_tokens":1.0)",
       R"(,"max_tokens":393217)",
       R"(,"seed":-1)",
       R"(,"seed":9223372036854775808)",
       R"(,"logit_bias":{"-1":1})",
       R"(,"logit_bias":{"1.5":1})",
       R"(,"logit_bias":{"abc":1})",
       R"(,"logit_bias":{"99999999":5})",
       R"(,"logit_bias":[])",
       R"(,"stop":[""])",
       R"(,"stop":7)",
       R"(,"top_logprobs":1)",
       R"(,"logprobs":true,"top_logprobs":21)",
       R"(,"stream":1)",
       R"(,"chat_template_kwargs":{"chat_template":"x"})",
       R"(,"model":"../../etc/passwd")",
       R"(,"messages":[])",
       R"(,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://127.0.0.1/x.png"}}]}])",
       R"(,"messages":[{"role":"root","content":"a"}])",
       R"(,"tools":[{"type":"function"}])",
       R"(,"timeout":-1)"}) {
    const auto refused = server.send("/v1/chat/completions", chat_body(more));
    EXPECT_EQ(refused->status(), 400) << more << refused->body();
    EXPECT_EQ(refused->json()["error"]["code"], "invalid_request_error") << more;
  }
  EXPECT_TRUE(server.engine().seen().empty()) << "nothing of it reaches the engine";
}

}  // namespace
}  // namespace deepinfer::serving
