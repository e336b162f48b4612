// 360 schemas of tool parameters (tools/tool_schemas), by bytes and by the demonstration tokenizer: all are compiled,
// every valid argument is accepted in three spellings, no invalid one is.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "byte_vocabulary.h"

namespace deepinfer {
namespace {

using Json = nlohmann::ordered_json;

// Integers have no point in the grammar.
void without_points(Json& value) {
  if (value.is_number_float() &&
      value.get<double>() == static_cast<double>(static_cast<int64_t>(value.get<double>()))) {
    value = static_cast<int64_t>(value.get<double>());
  } else if (value.is_structured()) {
    for (Json& member : value) without_points(member);
  }
}

// As Python's json.dumps writes it: a space behind colons and commas.
std::string spaced(const Json& value) {
  if (!value.is_structured()) return value.dump();
  std::string text(1, value.is_object() ? '{' : '[');
  for (const auto& [key, member] : value.items()) {
    if (text.size() > 1) text += ", ";
    if (value.is_object()) text += Json(key).dump() + ": ";
    text += spaced(member);
  }
  text.push_back(value.is_object() ? '}' : ']');
  return text;
}

TEST(ToolSchemas, ValidArgumentsPassAndInvalidOnesDoNot) {
  auto by_tokens = GrammarCompiler::create(tiny_vocabulary()).value();
  auto by_bytes = GrammarCompiler::create(byte_vocabulary()).value();
  std::ifstream in(std::string(DEEPINFER_TEST_DATA) + "/grammar/tool_schemas.jsonl");
  int schemas = 0, valid = 0, invalid = 0;
  for (std::string line; std::getline(in, line); ++schemas) {
    Json example = Json::parse(line);
    // Tokens for every third schema, bytes for the others: a walk by tokens takes a hundred times as long.
    const Tokenizer* tokenizer = schemas % 3 == 0 ? &tiny_tokenizer() : nullptr;
    for (const bool strict : {true, false}) {
      if (tokenizer != nullptr && !strict) continue;
      const GrammarSpec spec = spec_of(GrammarSpec::Kind::kJsonSchema, example["schema"].dump(), strict);
      const Result<SharedGrammar> grammar = (tokenizer != nullptr ? by_tokens : by_bytes)->compile(spec).wait();
      ASSERT_TRUE(grammar.ok()) << schemas << ": " << grammar.status().to_string();
      for (Json& value : example["valid"]) {
        without_points(value);
        for (const std::string& text : {value.dump(), spaced(value), value.dump(2)})
          EXPECT_TRUE(takes(grammar.value(), spec, text, tokenizer)) << schemas << ": " << text << "\n" << spec.text;
        ++valid;
      }
      for (const Json& value : example["invalid"]) {
        EXPECT_FALSE(takes(grammar.value(), spec, value.dump(), tokenizer)) << schemas << ": " << value.dump() << "\n"
                                                                            << spec.text;
        EXPECT_FALSE(takes(grammar.value(), spec, spaced(value), tokenizer)) << schemas << ": " << value.dump();
        ++invalid;
      }
    }
  }
  EXPECT_GE(schemas, 300);
  EXPECT_GE(valid, 1000);
  EXPECT_GE(invalid, 1000);
}

}  // namespace
}  // namespace deepinfer
