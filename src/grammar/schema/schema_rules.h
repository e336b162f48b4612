// SchemaRules: a JSON Schema as grammar rules for JSON text.  Called by grammar_text.cpp.  Every text that the rules
// derive is valid; what would need more than a context-free grammar is refused by name (docs/structured-output.md).
#pragma once

#include <deque>
#include <map>

#include "grammar/grammar_spec.h"
#include "grammar/regex/regex_rules.h"
#include "grammar/schema/schema_facts.h"

namespace deepinfer {

struct SchemaOptions {
  bool strict = true;
  JsonWhitespace whitespace = JsonWhitespace::kBounded;
  int64_t terms = 400'000;
  CodepointSet escaped;  // characters that JSON strings hold as \uxxxx only (RegexRules)
};

// One property of an object that is written out property by property.
struct ObjectProperty {
  std::string name;
  bool required = false;
  SchemaNode value;
};

// An object as a list: what tool calls need, which are not JSON themselves.
struct ObjectProperties {
  std::vector<ObjectProperty> listed;
  bool others = false;  // properties beside the listed ones are allowed
  SchemaNode other;
  std::optional<std::string> other_pattern;  // of the other names
  std::optional<SchemaNode> other_names;
};

class SchemaRules {
 public:
  // The graph's document must outlive the rules.
  SchemaRules(RuleSet& rules, SchemaGraph& graph, const SchemaOptions& options);

  // The rule of a JSON value; complete after finish().
  int value(const SchemaNode& node);
  // The properties of a node that must be an object without alternatives.
  Result<ObjectProperties> properties(const SchemaNode& node);
  // When the node's values are strings, and nothing but: the string itself, without quotes, in plain spelling, where it
  // holds none of `stops`.  None when it may have another type.
  Result<std::optional<Sequence>> plain_string(const SchemaNode& node, const std::vector<std::string>& stops);
  // Writes all rules that are still due.  Like the others it stops where a WorkBudget of this thread says so.
  Status finish();

 private:
  Status write(int rule, const SchemaNode& node);
  Status write_alternatives(int rule, const ExpandedNode& expanded);
  Result<Choices> enumerated(const SchemaNode& node, const SchemaFacts& facts);
  Result<Choices> strings(const ExpandedNode& expanded, const SchemaFacts& facts);
  // Of a string with constraints, with `closing` behind it.  No character of `without` is used.
  Result<Sequence> string_content(const ExpandedNode& expanded, const SchemaFacts& facts, RegexRules& spelled,
                                  const CodepointSet& without, const std::string& closing);
  Result<Choices> numbers_of(const ExpandedNode& expanded, const SchemaFacts& facts);
  Result<Choices> arrays(const ExpandedNode& expanded, const SchemaFacts& facts);
  Result<Choices> objects(const ExpandedNode& expanded, const SchemaFacts& facts);
  Result<ObjectProperties> list_properties(const ExpandedNode& expanded, const SchemaFacts& facts, bool strict);
  Result<Sequence> other_pair(const ExpandedNode& expanded, const ObjectProperties& properties);

  // Whether a value satisfies a node.
  Result<bool> matches(const JsonDocument& value, const SchemaNode& node, int depth);
  Result<bool> matches_facts(const JsonDocument& value, const ExpandedNode& expanded, int depth);
  // No value that the rules of `a` derive satisfies `b`; false where that cannot be shown.
  Result<bool> disjoint(const SchemaNode& a, const SchemaNode& b, int depth);

  int any_string();
  // A constant's JSON text.
  std::string json_text(const JsonDocument& value) const;
  void write_literal(const JsonDocument& value, Sequence& out) const;
  Term space() const { return Term::of_rule(space_); }
  Sequence key_other_than(const std::vector<std::string>& names);

  RuleSet& rules_;
  SchemaGraph& graph_;
  SchemaOptions options_;
  RegexRules json_text_;
  RegexRules plain_text_;
  int space_ = -1;
  int any_string_ = -1;
  std::map<SchemaNode, int> known_;
  std::deque<std::pair<int, SchemaNode>> due_;
};

// The rule of one JSON value.  Error: begins with `what` and says where in `text`.
Result<int> schema_rule(RuleSet& rules, std::string_view text, const std::string& what, const SchemaOptions& options,
                        const JsonLimits& limits);

}  // namespace deepinfer
