// tool_calls_rule: the model's tool calls as rules.  Called by grammar_text.cpp.
#pragma once

#include "grammar/grammar_compiler.h"
#include "grammar/rule_set.h"

namespace deepinfer {

// One block of calls, or the content that stands in its place.  Free text before the block is no part of the rules: the
// matcher follows it (CallOpening).  Parameters stand in the order of the schema, those of a tool that is not strict in
// any.  Strings are written as they are and end at the closing tag; everything else is JSON, which holds the markup's
// own character only escaped.  Error: names the tool and the place in its schema.
Result<int> tool_calls_rule(RuleSet& rules, const GrammarSpec& spec, const GrammarLimits& limits);

}  // namespace deepinfer
