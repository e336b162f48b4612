// Tool calls and structural tags with the demonstration tokenizer.
#include <gtest/gtest.h>

#include "byte_vocabulary.h"

namespace deepinfer {
namespace {

using Kind = GrammarSpec::Kind;

std::string call(const std::string& parameters, const std::string& name = "weather") {
  return "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"" + name + "\">\n" + parameters +
         "</｜DSML｜ invoke>\n</｜DSML｜ calls>";
}
std::string parameter(const std::string& name, const std::string& value, bool is_string) {
  return "<｜DSML｜ parameter name=\"" + name + "\" string=\"" + (is_string ? "true" : "false") + "\">" + value +
         "</｜DSML｜ parameter>\n";
}

class ToolCalls : public ::testing::Test {
 protected:
  ToolCalls() : compiler_(GrammarCompiler::create(tiny_vocabulary()).value()) {
    spec_.kind = Kind::kToolCalls;
    spec_.tools = {
        {"weather",
         R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1,"maximum":14},
          "unit":{"enum":["C","F"]},"code":{"type":"string","pattern":"^[A-Z]{3}$"},"where":{"type":"object","properties":{"lat":{"type":"number"}}}},
          "required":["city"]})"},
        {"now", ""},
    };
  }
  bool accepts(const std::string& text) {
    const Result<SharedGrammar> grammar = compiler_->compile(spec_).wait();
    EXPECT_TRUE(grammar.ok()) << grammar.status().to_string();
    return grammar.ok() && takes(grammar.value(), spec_, text, &tiny_tokenizer());
  }

  std::unique_ptr<GrammarCompiler> compiler_;
  GrammarSpec spec_;
};

TEST_F(ToolCalls, FollowTheSchemaFromTheOpeningOn) {
  EXPECT_TRUE(accepts("No call at all, not even < or ｜DSML｜."));
  EXPECT_TRUE(accepts("Let me look.\n\n" + call(parameter("city", "São Paulo </b> \"x\"\n", true))));
  EXPECT_TRUE(accepts(call(parameter("city", "", true) + parameter("days", "14", false) + parameter("unit", "F", true) +
                           parameter("code", "ABC", true) + parameter("where", R"({"lat": -3.5})", false))));
  EXPECT_TRUE(accepts(call("", "now")));
  EXPECT_FALSE(accepts(call("")));                                                              // city is required
  EXPECT_FALSE(accepts(call("", "other")));                                                     // no such tool
  EXPECT_FALSE(accepts(call(parameter("city", "x", true) + parameter("days", "15", false))));   // out of range
  EXPECT_FALSE(accepts(call(parameter("city", "x", true) + parameter("days", "3", true))));     // not a string
  EXPECT_FALSE(accepts(call(parameter("city", "\"x\"", false))));                               // a string
  EXPECT_FALSE(accepts(call(parameter("city", "x", true) + parameter("unit", "K", true))));     // not listed
  EXPECT_FALSE(accepts(call(parameter("city", "x", true) + parameter("code", "ABCD", true))));  // not the pattern
  EXPECT_FALSE(accepts(call(parameter("city", "x", true) + parameter("more", "x", true))));     // no such parameter
  EXPECT_FALSE(accepts(call(parameter("city", "x", true)) + " and more"));                      // behind the block
  EXPECT_FALSE(accepts("<｜DSML｜ calls>\n</｜DSML｜ calls>"));                                 // an empty block
  EXPECT_FALSE(accepts(call(parameter("city", "a</｜DSML｜ x", true))));                        // the value has ended
}

TEST_F(ToolCalls, MayBeRequired) {
  spec_.call_required = true;
  EXPECT_TRUE(accepts(call("", "now")));
  EXPECT_FALSE(accepts("text " + call("", "now")));
  EXPECT_FALSE(accepts(""));
}

TEST_F(ToolCalls, MayBeOpenedByThePrompt) {
  spec_.call_required = true;
  spec_.markup.begin.clear();
  const std::string rest = call("", "now").substr(std::string("<｜DSML｜ calls>\n").size());
  EXPECT_TRUE(accepts(rest));
  EXPECT_FALSE(accepts(call("", "now")));
  spec_.call_required = false;
  EXPECT_EQ(compiler_->compile(spec_).wait().status().message(),
            "grammar: calls must be required where the prompt has opened their block");
}

TEST_F(ToolCalls, RequiredOnesMayFollowLineFeeds) {
  spec_.call_required = true;
  EXPECT_TRUE(accepts("\n\n" + call("", "now")));
  EXPECT_FALSE(accepts("\n\n\n" + call("", "now")));
}

TEST_F(ToolCalls, ReasoningEndsWithItsToken) {
  spec_.reasoning_end = *tiny_tokenizer().added_id("</think>");
  const std::string now = call("", "now"), wrong = call("", "other");
  for (const bool required : {false, true}) {
    spec_.call_required = required;
    EXPECT_TRUE(accepts("I think < of <｜DSML.</think>\n\n" + now)) << required;
    EXPECT_TRUE(accepts("No end of thinking.\n\n" + now)) << required;
    EXPECT_FALSE(accepts("No end of thinking.\n\n" + wrong)) << required;
    EXPECT_FALSE(accepts("</think>" + wrong)) << required;
    EXPECT_FALSE(accepts("</think>" + now + "</think>")) << required;
    EXPECT_EQ(accepts("</think>Good day."), !required);
    EXPECT_EQ(accepts("only thoughts"), !required);
    EXPECT_EQ(accepts("</think>Good day. " + now), !required);
  }
}

// Free text is anything that the output parser takes for text: what it would take for a block must be one.
TEST_F(ToolCalls, WhatOpensABlockMustBeOne) {
  EXPECT_TRUE(accepts("<|DSML| calls> </｜DSML｜ calls> ｜DSML｜ < ｜DSML｜"));
  EXPECT_FALSE(accepts("The markup <｜DSML｜ is"));
  EXPECT_FALSE(accepts("<｜DSML｜ invoke name=\"now\">"));
  // However the tokens cut it.
  const SharedGrammar grammar = compiler_->compile(spec_).wait().value();
  const Tokenizer& tokenizer = tiny_tokenizer();
  for (const std::string text : {"a<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"now\">\n", "a<｜DSML｜ x"}) {
    std::vector<int32_t> bytes;
    for (const char byte : text) {
      int32_t id = 0;
      while (tokenizer.is_added(id) || tokenizer.bytes(id) != std::string(1, byte)) ++id;
      bytes.push_back(id);
    }
    GrammarMatcher matcher = GrammarMatcher::create(grammar, spec_, std::span(&kTinyStop, 1)).value();
    std::vector<uint32_t> mask(matcher.mask_words());
    size_t taken = 0;
    for (const int32_t byte : bytes) {
      ASSERT_TRUE(matcher.fill_mask(mask).ok());
      const bool allowed = (mask[static_cast<size_t>(byte / 32)] >> (byte % 32) & 1) != 0;
      EXPECT_EQ(matcher.accept(byte), allowed);
      if (!allowed) break;
      ++taken;
    }
    EXPECT_EQ(text.substr(0, taken), text.ends_with("x") ? "a<｜DSML｜ " : text);
  }
}

TEST_F(ToolCalls, FreeTextIsFollowedAndTakenBack) {
  spec_.reasoning_end = *tiny_tokenizer().added_id("</think>");
  const SharedGrammar grammar = compiler_->compile(spec_).wait().value();
  std::vector<int32_t> tokens;
  ASSERT_TRUE(
      tiny_tokenizer().encode("Hm. <｜DSML</think>Well < " + call(parameter("city", "Rome", true)), tokens).ok());
  tokens.push_back(kTinyStop);
  GrammarMatcher matcher = GrammarMatcher::create(grammar, spec_, std::span(&kTinyStop, 1)).value();
  const size_t words = matcher.mask_words();
  std::vector<std::vector<uint32_t>> masks;
  for (const int32_t token : tokens) {
    masks.emplace_back(words);
    ASSERT_TRUE(matcher.fill_mask(masks.back()).ok());
    ASSERT_TRUE(matcher.accept(token));
  }
  EXPECT_TRUE(matcher.is_terminated());
  for (size_t back = tokens.size(); back-- > 0;) {
    matcher.rollback(1);
    std::vector<uint32_t> mask(words);
    ASSERT_TRUE(matcher.fill_mask(mask).ok());
    EXPECT_EQ(mask, masks[back]);
    EXPECT_EQ(matcher.clone().fill_mask(mask).ok(), true);
    EXPECT_EQ(mask, masks[back]);
  }
  // Masks along drafts that lead from reasoning into a call are those of plain steps.
  std::vector<uint32_t> along(words * tokens.size());
  ASSERT_EQ(matcher.masks_along(std::span(tokens).first(tokens.size() - 1), along).value(),
            static_cast<int>(tokens.size()));
  for (size_t i = 0; i < tokens.size(); ++i)
    EXPECT_TRUE(std::equal(masks[i].begin(), masks[i].end(), along.begin() + static_cast<std::ptrdiff_t>(i * words)));
}

TEST_F(ToolCalls, ContentMayHaveAForm) {
  spec_.content = GrammarSpec::Content::kJsonSchema;
  spec_.text = R"({"type":"object","properties":{"x":{"type":"string"}},"required":["x"]})";
  EXPECT_TRUE(accepts(R"({"x": "y"})"));
  EXPECT_TRUE(accepts("\n\n" + call("", "now")));
  EXPECT_FALSE(accepts("Hello"));
  EXPECT_FALSE(accepts(R"({"x": "<｜DSML｜"})"));
  EXPECT_TRUE(accepts(R"({"x": "<\uff5cDSML\uff5c"})"));
  spec_.reasoning_end = *tiny_tokenizer().added_id("</think>");
  EXPECT_TRUE(accepts("Hm</think>" + std::string(R"({"x": "y"})")));
  EXPECT_TRUE(accepts("Hm</think>\n\n" + call("", "now")));
  EXPECT_TRUE(accepts("Hm" + call("", "now")));
  EXPECT_FALSE(accepts("Hm</think>Hello"));
  spec_.content = GrammarSpec::Content::kRegex;
  spec_.text = "[^x]{1,5}";
  EXPECT_TRUE(accepts("Hm</think>abc"));
  EXPECT_FALSE(accepts("Hm</think>a｜c"));
}

// What reads calls takes the closing tag for the end of a value wherever it stands.
TEST_F(ToolCalls, JsonHoldsNoMarkup) {
  spec_.tools[0].parameters = R"({"type":"object","properties":{
      "o":{"type":"object","properties":{"a｜b":{"type":"string"},"c":{"enum":["｜x"]},"p":{"type":"string","pattern":"^.｜?$"}}},
      "m":{"type":"object","additionalProperties":{"type":"string"}}}})";
  const auto o = [&](const std::string& json) { return accepts(call(parameter("o", json, false))); };
  EXPECT_TRUE(o(R"({"a\uff5cb": "</\uff5cDSML\uff5c", "c": "\uff5cx", "p": "\uff5c\uff5c"})"));
  EXPECT_FALSE(o(R"({"a｜b": ""})"));
  EXPECT_FALSE(o(R"({"a\uff5cb": "</｜DSML｜"})"));
  EXPECT_FALSE(o(R"({"c": "｜x"})"));
  EXPECT_FALSE(o(R"({"p": "a｜"})"));
  EXPECT_TRUE(o(R"({"p": "a\uff5c"})"));
  EXPECT_TRUE(accepts(call(parameter("m", R"({"\uff5c": "", "k": ""})", false))));
  EXPECT_FALSE(accepts(call(parameter("m", R"({"｜": ""})", false))));
}

TEST_F(ToolCalls, LooseOnesAreWellFormed) {
  for (CallableTool& tool : spec_.tools) tool.strict = false;
  EXPECT_TRUE(accepts(call("")));  // nothing is required
  EXPECT_TRUE(accepts(call(parameter("days", "\"many\"", false) + parameter("city", "[1, {\"a\": null}]", false))));
  EXPECT_TRUE(accepts(call(parameter("days", "many", true))));
  EXPECT_FALSE(accepts(call(parameter("days", "many", false))));  // no JSON
  EXPECT_FALSE(accepts(call(parameter("days", "[1", false))));
  EXPECT_FALSE(accepts(call(parameter("weeks", "1", false))));  // not listed
  EXPECT_FALSE(accepts(call("", "other")));
  EXPECT_TRUE(accepts(call(parameter("any name at all", "1", false), "now")));
  EXPECT_FALSE(accepts(call(parameter("</｜DSML｜", "1", false), "now")));
  // Keywords that are not enforced do no harm here.
  spec_.tools[0].parameters = R"({"type":"object","properties":{"a":{"type":"array","contains":{}}},"not":{},
                                  "additionalProperties":true})";
  EXPECT_TRUE(accepts(call(parameter("a", "{}", false) + parameter("b", "x", true))));
}

TEST_F(ToolCalls, FaultsNameTheTool) {
  const auto message = [&] { return compiler_->compile(spec_).wait().status().message(); };
  spec_.tools[0].parameters = R"({"type":"object","properties":{"a":{"type":"array","contains":{}}}})";
  EXPECT_EQ(message(), "tool weather: /properties/a: the keyword contains is not supported");
  spec_.tools[0].parameters = R"({"type":"string"})";
  EXPECT_EQ(message(), "tool weather: /: parameters must be an object with properties");
  spec_.tools[0].parameters = "";
  spec_.tools[1].name = "weather";
  EXPECT_EQ(message(), "grammar: two tools have the name weather");
}

TEST_F(ToolCalls, StructuralTags) {
  GrammarSpec spec;
  spec.kind = Kind::kTags;
  spec.tags = {{"<call=f>", R"({"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]})", "</call>"},
               {"<call=g>", R"({"enum":["on","off"]})", "</call>"}};
  spec.triggers = {"<call="};
  const SharedGrammar grammar = compiler_->compile(spec).wait().value();
  const auto accepts_tag = [&](const std::string& text) { return takes(grammar, spec, text, &tiny_tokenizer()); };
  EXPECT_TRUE(accepts_tag("plain < text"));
  EXPECT_TRUE(accepts_tag("a <call=f>{\"x\": 3}</call> b <call=g>\"on\"</call>"));
  EXPECT_FALSE(accepts_tag("a <call=h>{}</call>"));
  EXPECT_FALSE(accepts_tag("a <call=f>{\"x\": true}</call>"));
  EXPECT_FALSE(accepts_tag("a <call=f>{\"x\": 3}"));
  spec.triggers = {"<other"};
  EXPECT_FALSE(compiler_->compile(spec).wait().ok());
}

}  // namespace
}  // namespace deepinfer
