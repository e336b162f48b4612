// The table of keywords in docs/structured-output.md: it has every keyword, and each is treated as it says.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "byte_vocabulary.h"

namespace deepinfer {
namespace {

using Json = nlohmann::ordered_json;
using Kind = GrammarSpec::Kind;

// Backticked names of a table's first column, with the column `treatment`.
std::map<std::string, std::string> read_table(const std::string& heading, size_t treatment) {
  std::map<std::string, std::string> rows;
  std::ifstream in(DEEPINFER_KEYWORD_TABLE);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("| " + heading + " |", 0) == 0) {
      inside = true;
      continue;
    }
    if (line.empty() || line[0] != '|') inside = false;
    if (!inside || line.rfind("| ---", 0) == 0) continue;
    std::vector<std::string> cells;
    for (size_t at = 1; at < line.size();) {
      const size_t end = std::min(line.find('|', at), line.size());
      const std::string cell = line.substr(at, end - at);
      const size_t first = cell.find_first_not_of(' ');
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') + 1 - first));
      at = end + 1;
    }
    for (size_t at = cells[0].find('`'); at != std::string::npos; at = cells[0].find('`', at)) {
      const size_t end = cells[0].find('`', at + 1);
      EXPECT_TRUE(rows.emplace(cells[0].substr(at + 1, end - at - 1), cells[treatment]).second) << line;
      at = end + 1;
    }
  }
  return rows;
}

// Of the meta-schemas' vocabularies (json-schema.org/draft/2020-12), older drafts, and OpenAI's guide to structured
// outputs ("supported schemas" and "some type-specific keywords").
const std::set<std::string> kDraft2020{
    // core
    "$schema", "$vocabulary", "$id", "$anchor", "$dynamicAnchor", "$ref", "$dynamicRef", "$defs", "$comment",
    // applicator
    "prefixItems", "items", "contains", "additionalProperties", "properties", "patternProperties", "dependentSchemas",
    "propertyNames", "if", "then", "else", "allOf", "anyOf", "oneOf", "not",
    // unevaluated
    "unevaluatedItems", "unevaluatedProperties",
    // validation
    "type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength",
    "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains", "maxProperties",
    "minProperties", "required", "dependentRequired",
    // format, content, meta-data
    "format", "contentEncoding", "contentMediaType", "contentSchema", "title", "description", "default", "deprecated",
    "readOnly", "writeOnly", "examples"};
const std::set<std::string> kOlderDrafts{"definitions",   "dependencies",     "additionalItems",
                                         "$recursiveRef", "$recursiveAnchor", "id",
                                         "extends",       "disallow",         "divisibleBy"};
const std::set<std::string> kFormats{
    "date-time", "date",          "time", "duration",     "email",        "idn-email",
    "hostname",  "idn-hostname",  "ipv4", "ipv6",         "uri",          "uri-reference",
    "iri",       "iri-reference", "uuid", "uri-template", "json-pointer", "relative-json-pointer",
    "regex"};
const std::set<std::string> kOpenAiStrict{"type",        "properties",
                                          "required",    "additionalProperties",
                                          "items",       "enum",
                                          "const",       "anyOf",
                                          "$ref",        "$defs",
                                          "definitions", "description",
                                          "title",       "pattern",
                                          "format",      "multipleOf",
                                          "maximum",     "exclusiveMaximum",
                                          "minimum",     "exclusiveMinimum",
                                          "minItems",    "maxItems"};
const std::set<std::string> kOpenAiFormats{"date-time", "time", "date", "duration", "email",
                                           "hostname",  "ipv4", "ipv6", "uuid"};

// An enforced keyword at the top of `schema`: with it `invalid` is refused, and without it it is not.
struct Case {
  const char* schema;
  std::vector<const char*> valid, invalid;
};
const std::map<std::string, Case>& cases() {
  static const std::map<std::string, Case> kCases{
      {"type", {R"({"type":"integer"})", {"3"}, {"\"a\"", "3.5", "null", "{}", "[]", "true"}}},
      {"enum", {R"({"enum":["a",{"b":[1]}]})", {"\"a\"", R"({"b":[1]})"}, {"\"b\"", R"({"b":[2]})", "1"}}},
      {"const", {R"({"const":{"a":1}})", {R"({"a":1})"}, {"{}", R"({"a":2})", R"({"a":1,"b":1})"}}},
      {"minimum", {R"({"type":"number","minimum":2.5})", {"2.5", "3"}, {"2.4", "0", "-3"}}},
      {"maximum", {R"({"type":"number","maximum":2.5})", {"2.5", "-7"}, {"2.51", "30"}}},
      {"exclusiveMinimum", {R"({"type":"number","exclusiveMinimum":2})", {"2.1", "3"}, {"2", "2.0", "1"}}},
      {"exclusiveMaximum", {R"({"type":"number","exclusiveMaximum":2})", {"1.9", "-3"}, {"2", "2.00", "10"}}},
      {"multipleOf", {R"({"type":"integer","multipleOf":7})", {"0", "14", "-21"}, {"1", "15"}}},
      {"minLength", {R"({"type":"string","minLength":2})", {"\"ab\"", "\"abc\""}, {"\"\"", "\"a\""}}},
      {"maxLength", {R"({"type":"string","maxLength":2})", {"\"\"", "\"ab\""}, {"\"abc\"", "\"abcd\""}}},
      {"pattern", {R"({"type":"string","pattern":"^a+$"})", {"\"aa\""}, {"\"\"", "\"ab\"", "\"b\""}}},
      {"minItems", {R"({"type":"array","minItems":2})", {"[1,2]", "[1,2,3]"}, {"[]", "[1]"}}},
      {"maxItems", {R"({"type":"array","maxItems":1})", {"[]", "[1]"}, {"[1,2]"}}},
      {"uniqueItems", {R"({"enum":[[1,1],[1,2]],"uniqueItems":true})", {"[1,2]"}, {"[1,1]"}}},
      {"minProperties", {R"({"type":"object","minProperties":1})", {R"({"a":1})"}, {"{}"}}},
      {"maxProperties", {R"({"type":"object","maxProperties":1})", {"{}", R"({"a":1})"}, {R"({"a":1,"b":2})"}}},
      {"required", {R"({"type":"object","properties":{"a":{}},"required":["a"]})", {R"({"a":1})"}, {"{}"}}},
      {"properties",
       {R"({"type":"object","properties":{"a":{"type":"integer"}}})", {R"({"a":1})", "{}"}, {R"({"a":"x"})"}}},
      {"additionalProperties",
       {R"({"type":"object","properties":{"a":{}},"additionalProperties":{"type":"null"}})",
        {R"({"a":1})", R"({"a":1,"b":null})"},
        {R"({"a":1,"b":2})", R"({"b":"x"})"}}},
      {"patternProperties",
       {R"({"type":"object","patternProperties":{"^n":{"type":"null"}},"additionalProperties":false})",
        {"{}", R"({"n":null})"},
        {}}},
      {"propertyNames",
       {R"({"type":"object","propertyNames":{"maxLength":1}})", {"{}", R"({"a":1})"}, {R"({"ab":1})"}}},
      {"items", {R"({"type":"array","items":{"type":"integer"}})", {"[]", "[1,2]"}, {R"(["a"])", R"([1,"a"])"}}},
      {"prefixItems", {R"({"type":"array","prefixItems":[{"type":"integer"}]})", {"[]", "[1,2]"}, {R"(["a"])"}}},
      {"additionalItems",
       {R"({"type":"array","items":[{"type":"integer"}],"additionalItems":{"type":"null"}})",
        {"[1]", "[1,null]"},
        {"[1,2]"}}},
      {"allOf", {R"({"allOf":[{"type":"integer"},{"minimum":3}]})", {"3"}, {"2", "\"a\""}}},
      {"anyOf", {R"({"anyOf":[{"type":"integer"},{"const":"a"}]})", {"3", "\"a\""}, {"\"b\"", "3.5"}}},
      {"oneOf", {R"({"oneOf":[{"type":"integer"},{"type":"string"}]})", {"3", "\"a\""}, {"null", "3.5"}}},
      {"format", {R"({"type":"string","format":"date"})", {"\"2024-02-29\""}, {"\"2023-02-29\"", "\"x\""}}},
      {"$ref", {R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"integer"}}})", {"3"}, {"\"a\"", "3.5"}}},
  };
  return kCases;
}

// A format's valid and invalid values.
const std::map<std::string, Case>& format_cases() {
  static const std::map<std::string, Case> kCases{
      {"date", {"", {"\"2024-02-29\""}, {"\"2024-02-30\"", "\"2024-13-01\"", "\"24-01-01\""}}},
      {"time", {"", {"\"12:30:00Z\"", "\"23:59:59.5+01:00\""}, {"\"24:00:00Z\"", "\"12:30:00\"", "\"12:60:00Z\""}}},
      {"date-time", {"", {"\"2024-01-01T00:00:00Z\""}, {"\"2024-01-01\"", "\"2024-01-01 00:00:00Z\""}}},
      {"duration", {"", {"\"P1DT2H\"", "\"PT5M\"", "\"P2W\""}, {"\"P\"", "\"1D\"", "\"PT\""}}},
      {"email", {"", {"\"a.b@example.org\""}, {"\"a\"", "\"@b\"", "\"a@\"", "\"a b@c\""}}},
      {"hostname", {"", {"\"example.org\""}, {"\"-a\"", "\"a_b\"", "\"\"", "\"a..b\""}}},
      {"ipv4", {"", {"\"127.0.0.1\""}, {"\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""}}},
      {"ipv6", {"", {"\"::1\"", "\"1:2:3:4:5:6:7:8\""}, {"\"1:2\"", "\"::g\"", "\"12345::\""}}},
      {"uuid", {"", {"\"123e4567-e89b-12d3-a456-426614174000\""}, {"\"123e4567\"", "\"\""}}},
      {"uri", {"", {"\"http://a.org/b?c=d#e\""}, {"\"a b\"", "\"/relative\"", "\"\""}}},
      {"json-pointer", {"", {"\"\"", "\"/a/~0b\""}, {"\"a\"", "\"/~2\""}}},
      {"int32", {"", {"2147483647", "-2147483648", "0"}, {"2147483648", "-2147483649"}}},
      {"int64", {"", {"9223372036854775807", "-9223372036854775808"}, {"9223372036854775808"}}},
  };
  return kCases;
}

class KeywordTable : public ::testing::Test {
 protected:
  KeywordTable() : compiler_(GrammarCompiler::create(byte_vocabulary()).value()) {}

  static GrammarSpec spec(const std::string& schema) { return spec_of(Kind::kJsonSchema, schema, false); }
  Result<SharedGrammar> compile(const std::string& schema) { return compiler_->compile(spec(schema)).wait(); }
  void expect(const std::string& schema, const std::vector<const char*>& texts, bool valid) {
    const Result<SharedGrammar> grammar = compile(schema);
    ASSERT_TRUE(grammar.ok()) << schema << ": " << grammar.status().to_string();
    for (const char* text : texts)
      EXPECT_EQ(takes(grammar.value(), spec(schema), text), valid) << schema << ": " << text;
  }

  std::unique_ptr<GrammarCompiler> compiler_;
  const std::map<std::string, std::string> keywords_ = read_table("keyword", 2);
  const std::map<std::string, std::string> formats_ = read_table("format", 1);
};

TEST_F(KeywordTable, HasEveryKeyword) {
  for (const auto* list : {&kDraft2020, &kOlderDrafts})
    for (const std::string& keyword : *list) EXPECT_EQ(keywords_.count(keyword), 1U) << keyword;
  for (const std::string& format : kFormats) EXPECT_EQ(formats_.count(format), 1U) << format;
  for (const auto& [keyword, treatment] : keywords_)
    EXPECT_TRUE(treatment == "enforced" || treatment == "annotation" || treatment == "refused") << keyword;
  for (const std::string& keyword : kOpenAiStrict) {
    ASSERT_EQ(keywords_.count(keyword), 1U) << keyword;
    EXPECT_NE(keywords_.at(keyword), "refused") << keyword;
  }
  for (const std::string& format : kOpenAiFormats) EXPECT_EQ(formats_.at(format), "enforced") << format;
}

TEST_F(KeywordTable, EnforcedKeywordsRefuseWhatBreaksThem) {
  size_t enforced = 0;
  for (const auto& [keyword, treatment] : keywords_) {
    if (treatment != "enforced") continue;
    ++enforced;
    ASSERT_EQ(cases().count(keyword), 1U) << keyword << " is enforced, so it needs a case here";
    const Case& c = cases().at(keyword);
    expect(c.schema, c.valid, true);
    expect(c.schema, c.invalid, false);
    Json without = Json::parse(c.schema);
    ASSERT_EQ(without.erase(keyword), 1U) << keyword;
    if (keyword == "multipleOf" || keyword == "patternProperties") continue;
    expect(without.dump(), c.invalid, true);
  }
  EXPECT_EQ(enforced, cases().size());
  // Integers have a finer spelling without the keyword, and names need other names shut out.
  expect(R"({"type":"integer"})", {"1", "15"}, true);
  expect(R"({"type":"object","patternProperties":{"^n":{"type":"null"}},"additionalProperties":false})",
         {R"({"n":1})", R"({"m":null})"}, false);
}

TEST_F(KeywordTable, AnnotationsChangeNothing) {
  const std::map<std::string, const char*> kValues{
      {"$defs", R"({"a":{"not":{}}})"},   {"definitions", R"({"a":{"not":{}}})"},
      {"$vocabulary", R"({"a:b":true})"}, {"examples", "[1]"},
      {"contentSchema", R"({"not":{}})"}, {"$id", R"("http://a.org/b")"},
      {"defaultSnippets", R"([{"a":1}])"}};
  GrammarLimits limits;
  for (const auto& [keyword, treatment] : keywords_) {
    if (treatment != "annotation") continue;
    const std::string key = keyword == "x-..." ? "x-anything" : keyword;
    const auto value = kValues.find(keyword);
    Json schema = Json::parse(R"({"type":"array","items":{"type":"integer"},"maxItems":3})");
    const Result<std::string> want = grammar_text(spec(schema.dump()), limits);
    schema[key] = value == kValues.end() ? Json("text") : Json::parse(value->second);
    const Result<std::string> got = grammar_text(spec(schema.dump()), limits);
    ASSERT_TRUE(got.ok()) << key << ": " << got.status().to_string();
    EXPECT_EQ(*got, *want) << key;
  }
}

TEST_F(KeywordTable, RefusedKeywordsAreNamedWithTheirPlace) {
  std::vector<std::string> refused{"noSuchKeyword", "Type", "max-length"};
  for (const auto& [keyword, treatment] : keywords_)
    if (treatment == "refused") refused.push_back(keyword);
  EXPECT_GE(refused.size(), 20U);
  for (const std::string& keyword : refused) {
    for (const char* value : {"{}", "true", "\"#\"", "[\"a\"]", "1"}) {
      const std::string inner = "{\"" + keyword + "\":" + value + "}";
      const Status status = compile(R"({"type":"object","properties":{"a~/b":)" + inner + "}}").status();
      EXPECT_EQ(status.code(), StatusCode::kUnsupported) << keyword << " " << value;
      EXPECT_EQ(status.message(), "schema: /properties/a~0~1b: the keyword " + keyword + " is not supported");
    }
    EXPECT_EQ(compile(R"({"items":{"anyOf":[{")" + keyword + "\":1}]}}").status().message(),
              "schema: /items/anyOf/0: the keyword " + keyword + " is not supported");
  }
  EXPECT_EQ(compile(R"({"properties":{"a":{"$id":"x"}}})").status().message(),
            "schema: /properties/a: $id inside a schema is not supported");
}

TEST_F(KeywordTable, FormatsAreTreatedAsItSays) {
  size_t enforced = 0;
  for (const auto& [format, treatment] : formats_) {
    const bool number = format == "int32" || format == "int64" || format == "float" || format == "double";
    const std::string type = number ? "integer" : "string";
    const std::string schema = R"({"type":")" + type + R"(","format":")" + format + "\"}";
    if (treatment == "enforced") {
      ++enforced;
      ASSERT_EQ(format_cases().count(format), 1U) << format;
      expect(schema, format_cases().at(format).valid, true);
      expect(schema, format_cases().at(format).invalid, false);
      expect(R"({"type":")" + type + "\"}", format_cases().at(format).invalid, true);
    } else if (treatment == "annotation") {
      expect(schema, {"0", "123456789012345678901234567890"}, true);
    } else {
      EXPECT_EQ(compile(schema).status().message(), "schema: /: the format " + format + " is not supported");
    }
  }
  EXPECT_EQ(enforced, format_cases().size());
  // Whatever the type.
  for (const char* type : {"string", "integer", "number", "boolean", "array", "object", "null"})
    EXPECT_EQ(compile(R"({"type":")" + std::string(type) + R"(","format":"iri"})").status().message(),
              "schema: /: the format iri is not supported");
  EXPECT_EQ(compile(R"({"type":"number","format":"int32"})").status().message(),
            "schema: /: the format int32 is supported for the type integer only");
  EXPECT_EQ(compile(R"({"type":["string","integer"],"format":"int64"})").status().message(),
            "schema: /: the format int64 is not supported");
}

}  // namespace
}  // namespace deepinfer
