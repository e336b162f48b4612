#include "grammar/tool_calls.h"

#include <fmt/format.h>

#include <set>

#include "grammar/json_document.h"
#include "grammar/schema/schema_rules.h"

namespace deepinfer {
namespace {

// A parameter whose value may be a string or something else is JSON unless it must be a string: a string among other
// types is offered in both forms.
Result<int> parameter_rule(RuleSet& rules, SchemaRules& schema, const ObjectProperty& property,
                           const CallMarkup& markup) {
  if (property.name.find('"') != std::string::npos || property.name.find(markup.value_stop) != std::string::npos)
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

Result<int> call_rule(RuleSet& rules, const CallableTool& tool, const GrammarSpec& spec, const GrammarLimits& limits) {
  const CallMarkup& markup = spec.markup;
  const std::string what = fmt::format("tool {}", tool.name);
  const std::string text = tool.parameters.empty() ? R"({"type": "object", "properties": {}})" : tool.parameters;
  DI_ASSIGN_OR_RETURN(const JsonDocument document,
                      read_json_document(text, what, {.bytes = limits.text_bytes, .depth = limits.depth}));
  if (!document.is_object()) return invalid_argument(what + ": parameters must be a schema of an object");
  SchemaGraph graph(document, what);
  SchemaRules schema(rules, graph, {.strict = spec.strict, .whitespace = spec.whitespace, .terms = limits.terms});
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

}  // namespace

Result<int> tool_calls_rule(RuleSet& rules, const GrammarSpec& spec, const GrammarLimits& limits) {
  if (spec.tools.empty()) return invalid_argument("grammar: tools is empty");
  const CallMarkup& markup = spec.markup;
  for (const std::string* text :
       {&markup.begin, &markup.end, &markup.call_begin, &markup.call_named, &markup.call_end, &markup.parameter_begin,
        &markup.string_value, &markup.json_value, &markup.parameter_end, &markup.value_stop}) {
    std::vector<uint32_t> characters;
    if (text->empty() || !read_utf8(*text, characters))
      return invalid_argument("grammar: the markup of calls must be UTF-8 and not empty");
  }
  std::set<std::string> names;
  Choices calls;
  for (const CallableTool& tool : spec.tools) {
    std::vector<uint32_t> characters;
    if (tool.name.empty() || !read_utf8(tool.name, characters) || tool.name.find('"') != std::string::npos)
      return invalid_argument(fmt::format("grammar: the tool name {} cannot be written in a call", tool.name));
    if (!names.insert(tool.name).second)
      return invalid_argument(fmt::format("grammar: two tools have the name {}", tool.name));
    DI_ASSIGN_OR_RETURN(const int call, call_rule(rules, tool, spec, limits));
    calls.push_back({Term::of_rule(call)});
  }
  const int call = rules.add(std::move(calls));
  const int block = rules.add({{Term::literal(markup.begin), Term::of_rule(call, 1, -1), Term::literal(markup.end)}});
  if (spec.call_required) return block;
  // From the block's first line on there is no way but calls.
  return rules.add({{Term::free_text({markup.begin}), Term::of_rule(block, 0, 1)}});
}

}  // namespace deepinfer
