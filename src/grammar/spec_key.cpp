#include "grammar/spec_key.h"

#include <fmt/format.h>

namespace deepinfer {

std::string spec_key(const GrammarSpec& spec) {
  std::string key = fmt::format("{} {} {} {} {} ", static_cast<int>(spec.kind), spec.strict,
                                static_cast<int>(spec.whitespace), spec.call_required, static_cast<int>(spec.content));
  // Lengths in front, so no two lists of texts look alike.
  const auto add = [&key](const std::string& text) {
    key += std::to_string(text.size());
    key.push_back(':');
    key += text;
  };
  add(spec.text);
  key += fmt::format("t{}", spec.tools.size());
  for (const CallableTool& tool : spec.tools) {
    add(tool.name);
    add(tool.parameters);
    key.push_back(tool.strict ? 's' : 'l');
  }
  if (spec.kind == GrammarSpec::Kind::kToolCalls) {
    const CallMarkup& m = spec.markup;
    for (const std::string* text :
         {&m.opening, &m.begin, &m.end, &m.call_begin, &m.call_named, &m.call_end, &m.parameter_begin, &m.string_value,
          &m.json_value, &m.parameter_end, &m.value_stop})
      add(*text);
  }
  key += fmt::format("g{}", spec.tags.size());
  for (const StructuralTag& tag : spec.tags) {
    add(tag.begin);
    add(tag.schema);
    add(tag.end);
  }
  key += fmt::format("r{}", spec.triggers.size());
  for (const std::string& trigger : spec.triggers) add(trigger);
  return key;
}

}  // namespace deepinfer
