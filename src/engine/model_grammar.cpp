#include "engine/model_grammar.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/model_tokens.h"

namespace deepinfer {

Result<std::unique_ptr<GrammarCompiler>> make_grammar_compiler(const std::filesystem::path& folder,
                                                               int32_t vocabulary) {
  DI_ASSIGN_OR_RETURN(const std::vector<TokenSpelling> tokens, load_model_tokens(folder));
  GrammarVocabulary spelled;
  spelled.tokens.resize(static_cast<size_t>(vocabulary));
  // Control tokens are no text, but for those that tool calls are spelled with.
  const std::string markup = CallMarkup().begin;
  for (size_t i = 0; i < std::min(tokens.size(), spelled.tokens.size()); ++i) {
    if (!tokens[i].added || markup.find(tokens[i].bytes) != std::string::npos) spelled.tokens[i] = tokens[i].bytes;
  }
  return GrammarCompiler::create(std::move(spelled));
}

}  // namespace deepinfer
