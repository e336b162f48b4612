// What a CompiledGrammar holds.  The only header that names the matching library; included by grammar_compiler.cpp and
// grammar_matcher.cpp.
#pragma once

#include <xgrammar/xgrammar.h>

#include <memory>
#include <vector>

#include "grammar/call_opening.h"
#include "grammar/grammar_compiler.h"
#include "grammar/mask_memory.h"

namespace deepinfer {

struct CompiledGrammar::State {
  xgrammar::CompiledGrammar grammar;
  int64_t bytes = 0;       // without masks
  int64_t most_bytes = 0;  // with masks
  int32_t vocabulary = 0;
  int32_t longest_token = 0;  // bytes
  std::shared_ptr<MaskMemory> masks;
  int64_t number = 0;  // of this grammar in `masks`
  // Of tool calls that free text may open.
  std::shared_ptr<const CallOpening> opening;
  std::vector<std::vector<int32_t>> false_openers;  // [bytes matched]: tokens that open a block and go on as none does
};

}  // namespace deepinfer
