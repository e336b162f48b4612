// Vocabularies and walks for the tests of src/grammar.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar_compiler.h"
#include "grammar/grammar_matcher.h"
#include "text/tokenizer.h"

namespace deepinfer {

// Tokens 0..255 are the bytes; 256 ends the answer.
inline constexpr int32_t kByteStop = 256;
GrammarVocabulary byte_vocabulary();

// The demonstration model's, control tokens empty but the one of tool calls; token 1 ends the answer.
inline constexpr int32_t kTinyStop = 1;
const Tokenizer& tiny_tokenizer();
GrammarVocabulary tiny_vocabulary();

GrammarSpec spec_of(GrammarSpec::Kind kind, std::string text, bool strict = true);

// Whether the matcher takes `text` and may end behind it, byte by byte, or token by token where a tokenizer is given.
// A mask that disagrees with accept() throws std::logic_error.
bool takes(const SharedGrammar& grammar, const GrammarSpec& spec, std::string_view text,
           const Tokenizer* tokenizer = nullptr);

}  // namespace deepinfer
