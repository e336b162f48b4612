// The compiler of grammars for a model's vocabulary.  Made by the engine and the generator with the first grammar.
#pragma once

#include <filesystem>
#include <memory>

#include "base/status.h"
#include "grammar/grammar_compiler.h"

namespace deepinfer {

// Of the tokens in FOLDER/tokenizer.json; vocabulary: width of the logits.
Result<std::unique_ptr<GrammarCompiler>> make_grammar_compiler(const std::filesystem::path& folder, int32_t vocabulary);

}  // namespace deepinfer
