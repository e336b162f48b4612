// grammar_text: the translation of a GrammarSpec, without the matching library.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/out_of_memory.h"
#include "grammar/ebnf_parser.h"
#include "grammar/grammar_compiler.h"
#include "grammar/schema/schema_rules.h"
#include "grammar/tool_calls.h"

namespace deepinfer {
namespace {

Result<int> value_rule(RuleSet& rules, const std::string& text, const std::string& what, const GrammarSpec& spec,
                       const GrammarLimits& limits) {
  return schema_rule(rules, text, what,
                     {.strict = spec.strict, .whitespace = spec.whitespace, .terms = limits.terms, .escaped = {}},
                     {.bytes = limits.text_bytes, .depth = limits.depth});
}

Status check_literal(const std::string& text, std::string_view field, bool may_be_empty) {
  std::vector<uint32_t> characters;
  if (!read_utf8(text, characters)) return invalid_argument(fmt::format("grammar: {} is not UTF-8", field));
  if (text.empty() && !may_be_empty) return invalid_argument(fmt::format("grammar: {} is empty", field));
  return {};
}

Result<int> tags_rule(RuleSet& rules, const GrammarSpec& spec, const GrammarLimits& limits) {
  if (spec.tags.empty()) return invalid_argument("grammar: tags is empty");
  if (spec.triggers.empty()) return invalid_argument("grammar: triggers is empty");
  for (const std::string& trigger : spec.triggers) DI_RETURN_IF_ERROR(check_literal(trigger, "a trigger", false));
  Choices choices;
  std::vector<bool> used(spec.triggers.size(), false);
  for (size_t i = 0; i < spec.tags.size(); ++i) {
    const StructuralTag& tag = spec.tags[i];
    const std::string what = fmt::format("tag {}", i);
    DI_RETURN_IF_ERROR(check_literal(tag.begin, what + ": begin", false));
    DI_RETURN_IF_ERROR(check_literal(tag.end, what + ": end", true));
    bool triggered = false;
    for (size_t t = 0; t < spec.triggers.size(); ++t)
      if (tag.begin.compare(0, spec.triggers[t].size(), spec.triggers[t]) == 0) used[t] = triggered = true;
    if (!triggered) return invalid_argument(what + ": begin starts with none of the triggers");
    DI_ASSIGN_OR_RETURN(const int content, value_rule(rules, tag.schema, what + ": schema", spec, limits));
    choices.push_back({Term::literal(tag.begin), Term::of_rule(content), Term::literal(tag.end)});
  }
  if (std::find(used.begin(), used.end(), false) != used.end())
    return invalid_argument("grammar: a trigger begins no tag");
  // Free text holds no trigger, so from a trigger on there is no way but a tag.
  const int tag = rules.add(std::move(choices));
  const int round = rules.add({{Term::of_rule(tag), Term::free_text(spec.triggers)}});
  return rules.add({{Term::free_text(spec.triggers), Term::of_rule(round, 0, -1)}});
}

Result<std::string> translate(const GrammarSpec& spec, const GrammarLimits& limits) {
  RuleSet rules;
  int root = -1;
  std::string what = "schema";
  switch (spec.kind) {
    case GrammarSpec::Kind::kJsonSchema: {
      DI_ASSIGN_OR_RETURN(root, value_rule(rules, spec.text, what, spec, limits));
      break;
    }
    case GrammarSpec::Kind::kRegex: {
      what = "regular expression";
      DI_ASSIGN_OR_RETURN(const Regex regex, parse_regex(spec.text, RegexUse::kWhole));
      root = rules.add();
      rules.set(root, {RegexRules(rules, CharacterSpelling::kPlain).whole(regex)});
      break;
    }
    case GrammarSpec::Kind::kEbnf: {
      what = "grammar";
      DI_ASSIGN_OR_RETURN(root, parse_ebnf(spec.text, rules,
                                           {.bytes = limits.text_bytes, .depth = limits.depth, .terms = limits.terms}));
      break;
    }
    case GrammarSpec::Kind::kToolCalls: {
      what = "tools";
      DI_ASSIGN_OR_RETURN(root, tool_calls_rule(rules, spec, limits));
      break;
    }
    case GrammarSpec::Kind::kTags: {
      what = "tags";
      DI_ASSIGN_OR_RETURN(root, tags_rule(rules, spec, limits));
      break;
    }
  }
  if (rules.terms() > limits.terms)
    return invalid_argument(fmt::format("{}: needs a grammar of more than {} elements", what, limits.terms));
  Result<std::string> text = rules.write_ebnf(root);
  if (!text.ok()) return text.status().with_context(what);
  return text;
}

}  // namespace

Result<std::string> grammar_text(const GrammarSpec& spec, const GrammarLimits& limits) {
  return or_out_of_memory([&] { return fmt::format("a grammar of {} bytes of text", spec.text.size()); },
                          [&] { return translate(spec, limits); });
}

}  // namespace deepinfer
