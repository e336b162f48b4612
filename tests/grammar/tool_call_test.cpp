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
  EXPECT_TRUE(accepts("No call at all, not even < or <｜DSML｜."));
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
