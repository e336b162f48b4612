// spec_key: equal for two specs exactly when they are translated into the same grammar.  Called by the compiler's
// cache.
#pragma once

#include <string>

#include "grammar/grammar_spec.h"

namespace deepinfer {

// Trigger and bound tokens do not belong to the grammar.
std::string spec_key(const GrammarSpec& spec);

}  // namespace deepinfer
