// What a CompiledGrammar holds.  The only header that names the matching library; included by grammar_compiler.cpp and
// grammar_matcher.cpp.
#pragma once

#include <xgrammar/xgrammar.h>

#include "grammar/grammar_compiler.h"

namespace deepinfer {

struct CompiledGrammar::State {
  xgrammar::CompiledGrammar grammar;
  int64_t bytes = 0;
  int32_t vocabulary = 0;
};

}  // namespace deepinfer
