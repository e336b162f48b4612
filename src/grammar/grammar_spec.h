// GrammarSpec: what one request wants its output to look like.  Filled from a protocol's response format, from tools,
// or from DeepInfer's `so_args`; given to GrammarCompiler and GrammarMatcher.  docs/structured-output.md is the full
// story.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace deepinfer {

// White space of JSON output.  Never before the first or behind the last character of the value.
enum class JsonWhitespace {
  kBounded,  // behind { [ , : and before } ]: nothing, one space, or a line feed with up to 32 spaces or 16 tabs
  kNone,
};

// A call of a tool as the model writes it (docs/chat-encoding.md): parameters one by one, strings as they are, other
// values as JSON.  The spelling is that of DeepSeek V4.1.
struct CallMarkup {
  std::string opening = "<｜DSML｜";         // what readers of the output take for the beginning of a block
  std::string begin = "<｜DSML｜ calls>\n";  // starts with `opening`; empty: the prompt ends with it
  std::string end = "</｜DSML｜ calls>";
  std::string call_begin = "<｜DSML｜ invoke name=\"";  // then the name
  std::string call_named = "\">\n";
  std::string call_end = "</｜DSML｜ invoke>\n";
  std::string parameter_begin = "<｜DSML｜ parameter name=\"";  // then the name
  std::string string_value = "\" string=\"true\">";
  std::string json_value = "\" string=\"false\">";
  std::string parameter_end = "</｜DSML｜ parameter>\n";
  std::string value_stop = "</｜DSML｜";  // what a string value cannot hold
};

struct CallableTool {
  std::string name;
  std::string parameters;  // JSON Schema text of an object; empty: no parameters
  // False: parameters are well-formed, no more.  Their names are those that the schema lists, any where it lists none
  // or speaks of others; in any order.
  bool strict = true;
};

// A stretch of output that begins with `begin`, holds JSON of `schema`, and ends with `end`.
struct StructuralTag {
  std::string begin;
  std::string schema;
  std::string end;
};

struct GrammarSpec {
  enum class Kind {
    kJsonSchema,  // `text`: a schema
    kRegex,       // `text`: an expression that the whole output matches
    kEbnf,        // `text`: rules; the output is what `root` derives
    kToolCalls,   // free text, or `content`, and then calls of `tools`; in free text the model opens them
    kTags,        // free text until one of `triggers`, then the tag of `tags` that begins so; any number of times
  };
  Kind kind = Kind::kJsonSchema;
  std::string text;
  std::vector<CallableTool> tools;
  CallMarkup markup;
  bool call_required = false;  // kToolCalls: the output is calls at once, without free text
  // kToolCalls: what the output is when it is no call.  `text` is the schema or the expression.
  enum class Content { kFree, kJsonSchema, kRegex };
  Content content = Content::kFree;
  // kToolCalls: the output begins with reasoning, free text that this token ends; calls may be opened in it.
  std::optional<int32_t> reasoning_end;
  std::vector<StructuralTag> tags;
  std::vector<std::string> triggers;  // each a prefix of the `begin` of at least one tag

  // As DeepInfer: objects that list properties have no others, arrays with a prefix have nothing behind it, and a
  // schema without `type` stands for the types that its keywords are about.  False: to the letter of JSON Schema.
  bool strict = true;
  JsonWhitespace whitespace = JsonWhitespace::kBounded;

  // The grammar starts behind this sequence of tokens; until then every token is allowed.  Empty: at once.
  std::vector<int32_t> trigger_token_ids;
  // As soon as this token is emitted before the trigger is complete, the rest of the trigger is forced.
  std::optional<int32_t> bound_token_id;
};

// DeepInfer's `so_args`: {"schema_type": "json" | "regex" | "ebnf", "schema": text, "trigger_token_ids": [ids],
// "bound_token_id": id}.  Only the first two are required.  Error: kInvalidArgument that names the key; unknown keys,
// `bound_token_ids` and `serialized` are refused.
Result<GrammarSpec> parse_so_args(std::string_view json);

}  // namespace deepinfer
