#include "grammar/tool_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "grammar/json_document.h"
#include "grammar/regex/regex_rules.h"
#include "grammar/schema/schema_rules.h"

namespace deepinfer {
namespace {

// The character that makes markup what it is: JSON in an answer that may hold calls spells it as an escape.
uint32_t markup_character(const CallMarkup& markup) {
  std::vector<uint32_t> characters;
  read_utf8(markup.opening, characters);
  return *std::max_element(characters.begin(), characters.end());
}

SchemaOptions schema_options(const GrammarSpec& spec, const GrammarLimits& limits, bool strict) {
  SchemaOptions options{.strict = strict, .whitespace = spec.whitespace, .terms = limits.terms, .escaped = {}};
  // An escape has four digits, and ASCII is what JSON itself is made of.
  const uint32_t character = markup_character(spec.markup);
  if (character > 0x7F && character <= 0xFFFF) options.escaped.add(character, character);
  return options;
}

bool writable(const std::string& parameter, const CallMarkup& markup) {
  return parameter.find('"') == std::string::npos && parameter.find(markup.value_stop) == std::string::npos;
}

// A parameter whose value may be a string or something else is JSON unless it must be a string: a string among other
// types is offered in both forms.
Result<int> parameter_rule(RuleSet& rules, SchemaRules& schema, const ObjectProperty& property,
                           const CallMarkup& markup) {
  if (!writable(property.name, markup))
    return unsupported(fmt::format("the parameter {} cannot be written in a call", property.name));
  const std::string begin = markup.parameter_begin + property.name;
  DI_ASSIGN_OR_RETURN(std::optional<Sequence> plain, schema.plain_string(property.value, {markup.value_stop}));
  if (plain) {
    Sequence sequence{Term::literal(begin + markup.string_value)};
    sequence.insert(sequence.end(), plain->begin(), plain->end());
    sequence.push_back(Term::literal(markup.parameter_end));
    return rules.add({std::move(sequence)});
  }
  return rules.add({{Term::literal(begin + markup.json_value), Term::of_rule(schema.value(property.value)),
                     Term::literal(markup.parameter_end)}});
}

// The names that parameters of a tool that is not strict may have; none: any.
std::vector<std::string> offered_names(const JsonDocument& schema, const CallMarkup& markup) {
  for (const char* open : {"$ref", "allOf", "anyOf", "oneOf", "patternProperties", "if"})
    if (schema.contains(open)) return {};
  const auto others = schema.find("additionalProperties");
  if (others != schema.end() && *others != JsonDocument(false)) return {};
  const auto properties = schema.find("properties");
  if (properties == schema.end() || !properties->is_object()) return {};
  std::vector<std::string> names;
  for (const auto& [name, property] : properties->items())
    if (writable(name, markup)) names.push_back(name);
  return names;
}

// Calls whose arguments are an object of JSON, whatever is in it.
class LooseCalls {
 public:
  LooseCalls(RuleSet& rules, const GrammarSpec& spec, const GrammarLimits& limits)
      : rules_(rules), spec_(spec), limits_(limits) {}

  Result<int> call(const CallableTool& tool, const JsonDocument& schema) {
    const CallMarkup& markup = spec_.markup;
    if (value_ < 0) DI_RETURN_IF_ERROR(write_value());
    Choices names;
    for (const std::string& name : offered_names(schema, markup)) names.push_back({Term::literal(name)});
    int name = any_name_;
    if (!names.empty()) name = rules_.add(std::move(names));
    const int parameter =
        rules_.add({{Term::literal(markup.parameter_begin), Term::of_rule(name), Term::of_rule(value_)}});
    return rules_.add({{Term::literal(markup.call_begin + tool.name + markup.call_named),
                        Term::of_rule(parameter, 0, -1), Term::literal(markup.call_end)}});
  }

 private:
  // What follows the name of a parameter, to its end.
  Status write_value() {
    const CallMarkup& markup = spec_.markup;
    DI_ASSIGN_OR_RETURN(const int any, schema_rule(rules_, "true", "tools", schema_options(spec_, limits_, false),
                                                   {.bytes = limits_.text_bytes, .depth = limits_.depth}));
    value_ = rules_.add({{Term::literal(markup.string_value), Term::free_text({markup.value_stop}),
                          Term::literal(markup.parameter_end)},
                         {Term::literal(markup.json_value), Term::of_rule(any), Term::literal(markup.parameter_end)}});
    CodepointSet no_name{{0, 0x1F}, {'"', '"'}, {'<', '<'}};
    no_name.add(markup_character(markup), markup_character(markup));
    any_name_ = rules_.add({{Term::one_of(no_name.complement(), 1, -1)}});
    return {};
  }

  RuleSet& rules_;
  const GrammarSpec& spec_;
  const GrammarLimits& limits_;
  int value_ = -1;
  int any_name_ = -1;
};

Result<int> call_rule(RuleSet& rules, LooseCalls& loose, const CallableTool& tool, const GrammarSpec& spec,
                      const GrammarLimits& limits) {
  const CallMarkup& markup = spec.markup;
  const std::string what = fmt::format("tool {}", tool.name);
  const std::string text = tool.parameters.empty() ? R"({"type": "object", "properties": {}})" : tool.parameters;
  DI_ASSIGN_OR_RETURN(const JsonDocument document,
                      read_json_document(text, what, {.bytes = limits.text_bytes, .depth = limits.depth}));
  if (!document.is_object()) return invalid_argument(what + ": parameters must be a schema of an object");
  if (!tool.strict) return loose.call(tool, document);
  SchemaGraph graph(document, what);
  SchemaRules schema(rules, graph, schema_options(spec, limits, spec.strict));
  DI_ASSIGN_OR_RETURN(const ObjectProperties properties, schema.properties({{&document}}));
  if (properties.others && !properties.listed.empty() && document.contains("additionalProperties"))
    return unsupported(what + ": additionalProperties beside listed parameters is not supported");
  Sequence call{Term::literal(markup.call_begin + tool.name + markup.call_named)};
  for (const ObjectProperty& property : properties.listed) {
    DI_ASSIGN_OR_RETURN(const int parameter, parameter_rule(rules, schema, property, markup));
    call.push_back(Term::of_rule(parameter, property.required ? 1 : 0, 1));
  }
  call.push_back(Term::literal(markup.call_end));
  DI_RETURN_IF_ERROR(schema.finish());
  return rules.add({std::move(call)});
}

// What the answer is instead of calls.
Result<int> content_rule(RuleSet& rules, const GrammarSpec& spec, const GrammarLimits& limits) {
  if (spec.content == GrammarSpec::Content::kRegex) {
    DI_ASSIGN_OR_RETURN(Regex regex, parse_regex(spec.text, RegexUse::kWhole));
    CodepointSet markup;
    markup.add(markup_character(spec.markup), markup_character(spec.markup));
    for (Regex::Node& node : regex.nodes)
      if (node.kind == Regex::Node::Kind::kClass) node.set = node.set.minus(markup);
    return rules.add({RegexRules(rules, CharacterSpelling::kPlain).whole(regex)});
  }
  return schema_rule(rules, spec.text, "schema", schema_options(spec, limits, spec.strict),
                     {.bytes = limits.text_bytes, .depth = limits.depth});
}

Status check_markup(const GrammarSpec& spec) {
  const CallMarkup& markup = spec.markup;
  for (const std::string* text :
       {&markup.opening, &markup.begin, &markup.end, &markup.call_begin, &markup.call_named, &markup.call_end,
        &markup.parameter_begin, &markup.string_value, &markup.json_value, &markup.parameter_end, &markup.value_stop}) {
    std::vector<uint32_t> characters;
    if (!read_utf8(*text, characters) || (text->empty() && text != &markup.begin))
      return invalid_argument("grammar: the markup of calls must be UTF-8 and not empty");
  }
  if (markup.begin.empty()) {
    if (!spec.call_required)
      return invalid_argument("grammar: calls must be required where the prompt has opened their block");
  } else if (markup.begin.compare(0, markup.opening.size(), markup.opening) != 0) {
    return invalid_argument("grammar: the markup of calls must begin with its opening");
  }
  if (spec.call_required && spec.content != GrammarSpec::Content::kFree)
    return invalid_argument("grammar: required calls leave no room for other content");
  return {};
}

}  // namespace

Result<int> tool_calls_rule(RuleSet& rules, const GrammarSpec& spec, const GrammarLimits& limits) {
  if (spec.tools.empty()) return invalid_argument("grammar: tools is empty");
  DI_RETURN_IF_ERROR(check_markup(spec));
  const CallMarkup& markup = spec.markup;
  std::set<std::string> names;
  Choices calls;
  LooseCalls loose(rules, spec, limits);
  for (const CallableTool& tool : spec.tools) {
    std::vector<uint32_t> characters;
    if (tool.name.empty() || !read_utf8(tool.name, characters) || tool.name.find('"') != std::string::npos)
      return invalid_argument(fmt::format("grammar: the tool name {} cannot be written in a call", tool.name));
    if (!names.insert(tool.name).second)
      return invalid_argument(fmt::format("grammar: two tools have the name {}", tool.name));
    DI_ASSIGN_OR_RETURN(const int call, call_rule(rules, loose, tool, spec, limits));
    calls.push_back({Term::of_rule(call)});
  }
  const int call = rules.add(std::move(calls));
  const int block = rules.add({{Term::literal(markup.begin), Term::of_rule(call, 1, -1), Term::literal(markup.end)}});
  // Behind free text the matcher opens the block itself (CallOpening).  Elsewhere the model's line feeds go before it.
  if (!spec.call_required && spec.content == GrammarSpec::Content::kFree) return block;
  if (markup.begin.empty()) return block;
  const int spaced = rules.add({{Term::one_of(CodepointSet{CodepointRange{'\n', '\n'}}, 0, 2), Term::of_rule(block)}});
  if (spec.call_required) return spaced;
  DI_ASSIGN_OR_RETURN(const int content, content_rule(rules, spec, limits));
  return rules.add({{Term::of_rule(content)}, {Term::of_rule(spaced)}});
}

}  // namespace deepinfer
