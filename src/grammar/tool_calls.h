// tool_calls_rule: the model's tool calls as rules.  Called by grammar_text.cpp.
#pragma once

#include "grammar/grammar_compiler.h"
#include "grammar/rule_set.h"

namespace deepinfer {

// Free text (unless calls are required), then one block of calls, or none.  Parameters stand in the order of the
// schema. Strings are written as they are and end at the closing tag; everything else is JSON.  Error: names the tool
// and the place in its schema.
Result<int> tool_calls_rule(RuleSet& rules, const GrammarSpec& spec, const GrammarLimits& limits);

}  // namespace deepinfer
