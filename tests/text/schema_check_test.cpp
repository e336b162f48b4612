// JSON Schema checks: what the meta-schema allows, references, expressions that must never be run, strict schemas.
#include "text/schema_check.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/pattern_check.h"
#include "text/strict_schema.h"

namespace deepinfer {
namespace {

Status check(const std::string& text) {
  return check_schema(parse_json(text).value());
}

TEST(SchemaCheck, Valid) {
  for (
      const std::string& text : std::vector<std::string>{
          "true",
          "false",
          "{}",
          R"({"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"]})",
          R"({"$defs":{"q":{"const":1}},"$ref":"#/$defs/q"})",
          R"({"definitions":{"a/b~c":{}},"$ref":"#/definitions/a~1b~0c"})",
          R"({"$defs":{"a b":{}},"$ref":"#/$defs/a%20b"})",
          R"({"$ref":"#"})",
          R"({"$defs":{"q":{"$anchor":"here"}},"$ref":"#here"})",
          R"({"$defs":{"q":{"$id":"https://example.com/q","$defs":{"r":{}}}},"$ref":"https://example.com/q#/$defs/r"})",
          R"({"$ref":"https://json-schema.org/draft/2020-12/schema"})",
          R"({"properties":{"a":{"$ref":"#/properties/b"},"b":{"$ref":"#/properties/a"}}})",
          R"({"allOf":[{"type":"object"},true]})",
          R"({"prefixItems":[{}],"items":false})",
          R"({"enum":[]})",
          R"({"x-unknown":5})",
          R"({"minimum":-1.5,"multipleOf":0.01,"maxLength":3,"minItems":0,"maxItems":2.0})",
          R"({"pattern":"^[\\p{L}\\d_-]{1,64}$"})",
          R"({"patternProperties":{"^x-":{}}})",
          R"({"dependencies":{"a":["b"],"c":{}}})",
          R"({"dependentRequired":{"a":["b"]}})",
          R"({"$schema":"http://json-schema.org/draft-07/schema#","items":[{},{}]})",
          R"({"$schema":"http://json-schema.org/draft-04/schema#","exclusiveMinimum":true})",
          R"({"default":null,"examples":[1]})",
          R"({"if":{},"then":{},"else":false,"not":{}})"}) {
    const Status status = check(text);
    EXPECT_TRUE(status.ok()) << text << ": " << status.message();
  }
}

TEST(SchemaCheck, Invalid) {
  for (const std::string& text : std::vector<std::string>{"null",
                                                          "[]",
                                                          "5",
                                                          "\"object\"",
                                                          R"({"type":"foo"})",
                                                          R"({"type":[]})",
                                                          R"({"type":["string","string"]})",
                                                          R"({"type":5})",
                                                          R"({"type":["string",5]})",
                                                          R"({"properties":[]})",
                                                          R"({"properties":{"a":5}})",
                                                          R"({"required":"a"})",
                                                          R"({"required":[1]})",
                                                          R"({"required":["a","a"]})",
                                                          R"({"allOf":[]})",
                                                          R"({"anyOf":{}})",
                                                          R"({"oneOf":[5]})",
                                                          R"({"items":[{}]})",
                                                          R"({"items":5})",
                                                          R"({"minLength":-1})",
                                                          R"({"minLength":1.5})",
                                                          R"({"maxItems":"1"})",
                                                          R"({"minimum":"1"})",
                                                          R"({"exclusiveMinimum":true})",
                                                          R"({"multipleOf":0})",
                                                          R"({"multipleOf":-1})",
                                                          R"({"uniqueItems":1})",
                                                          R"({"enum":5})",
                                                          R"({"description":5})",
                                                          R"({"title":[]})",
                                                          R"({"pattern":"("})",
                                                          R"({"pattern":5})",
                                                          R"({"patternProperties":{"[":{}}})",
                                                          R"({"$ref":"#/x"})",
                                                          R"({"$ref":"#x"})",
                                                          R"({"$ref":5})",
                                                          R"({"$ref":"other.json"})",
                                                          R"({"$ref":"https://example.com/x"})",
                                                          R"({"$defs":{"a":[{}]},"$ref":"#/$defs/a/01x"})",
                                                          R"({"$defs":{"a":{}},"$ref":"#/$defs/a/b"})",
                                                          R"({"dependentRequired":{"a":"b"}})",
                                                          R"({"additionalProperties":"no"})",
                                                          R"({"properties":{"a":{"properties":{"b":{"type":"foo"}}}}})",
                                                          R"({"not":5})"}) {
    const Status status = check(text);
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  }
}

// Expressions whose matching explodes are legal; they are compiled within bounds and never run.
TEST(SchemaCheck, ExpressionsAreBounded) {
  for (const std::string& pattern : std::vector<std::string>{"(a+)+$", "^(a|a)*$", "(.*)*x", "(?=(a+))a*b", "\\u00e9",
                                                             "[^]", "(?<n>a)\\k<n>", "^\\p{Lu}+$", ""}) {
    EXPECT_TRUE(check_pattern(pattern).ok()) << pattern;
  }
  std::string nested;
  for (int i = 0; i < 5000; ++i) nested += "(";
  for (int i = 0; i < 5000; ++i) nested += ")";
  for (const std::string& pattern :
       std::vector<std::string>{"(", "[", "*a", "a{2,1}", "\\C", nested, std::string(kMaxPatternBytes + 1, 'a'),
                                "(?:(?:(?:a{1,65535}){1,65535}){1,65535})", "\xFF", "(*COMMIT)("}) {
    EXPECT_FALSE(check_pattern(pattern).ok()) << pattern.substr(0, 60);
  }
}

// Many references into a large object: found by an index.
TEST(SchemaCheck, ManyReferences) {
  std::string text = "{\"$defs\":{";
  for (int i = 0; i < 30000; ++i) {
    if (i > 0) text += ',';
    text += "\"d";
    text += std::to_string(i);
    text += "\":{\"$ref\":\"#/$defs/d";
    text += std::to_string(29999 - i);
    text += "\"}";
  }
  EXPECT_TRUE(check(text + "}}").ok());
}

TEST(StrictSchema, NormalForm) {
  const auto normal = [](const std::string& text, StrictUse use) {
    return dump_compact(std::get<Json>(normalize_strict_schema(parse_json(text).value(), use)));
  };
  EXPECT_EQ(
      normal(R"({"type":"object","properties":{"a":{"type":"string","minLength":2,"pattern":"x"}}})",
             StrictUse::kToolParameters),
      R"({"type":"object","properties":{"a":{"type":"string","pattern":"x"}},"additionalProperties":false,"required":["a"]})");
  EXPECT_EQ(
      normal(
          R"({"type":"object","required":["b","a"],"properties":{"a":{"type":"array","items":{"type":"object"},"minItems":1},)"
          R"("b":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/d"}]}},"$defs":{"d":{"type":"integer","maximum":5}}})",
          StrictUse::kToolParameters),
      R"({"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{},"additionalProperties":false,)"
      R"("required":[]}},"b":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/d"}]}},"$defs":{"d":{"type":"integer","maximum":5}},)"
      R"("additionalProperties":false,"required":["a","b"]})");
}

TEST(StrictSchema, Errors) {
  for (const auto& [text, use, message] : std::vector<std::tuple<std::string, StrictUse, std::string>>{
           {R"({"type":"object","properties":{"a":{"type":"string"}},"required":[]})", StrictUse::kToolParameters,
            "Required properties must match all properties in the object"},
           {R"({"type":"object","properties":{"a":{"type":"string"}},"required":["a","b"]})",
            StrictUse::kToolParameters, "Required properties must match all properties in the object"},
           {R"({"type":"object","properties":{},"additionalProperties":true})", StrictUse::kToolParameters,
            "additionalProperties should not be true"},
           {R"({"type":"object"})", StrictUse::kResponse, "An object with no properties is not allowed."},
           {R"({"type":"array"})", StrictUse::kResponse, "missing field `items`"},
           {R"({"type":"object","properties":{"a":{"enum":[1]}}})", StrictUse::kToolParameters,
            "one of `type`, `anyOf`, `$ref` field is required"},
           {R"({"type":"object","properties":[]})", StrictUse::kToolParameters, "expected an object"},
           {"[]", StrictUse::kToolParameters, "expected an object"},
           {R"({"anyOf":5})", StrictUse::kToolParameters, "expected an array"}}) {
    const auto outcome = normalize_strict_schema(parse_json(text).value(), use);
    ASSERT_TRUE(std::holds_alternative<StrictError>(outcome)) << text;
    EXPECT_EQ(std::get<StrictError>(outcome).message, message);
  }
}

}  // namespace
}  // namespace deepinfer
