#include "engine/model_tokens.h"

#include <memory>

#include "text/tokenizer.h"

namespace deepinfer {

Result<std::vector<TokenSpelling>> load_model_tokens(const std::filesystem::path& folder) {
  DI_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, Tokenizer::load(folder / "tokenizer.json"));
  std::vector<TokenSpelling> tokens;
  tokens.reserve(static_cast<size_t>(tokenizer->vocabulary()));
  for (int32_t id = 0; id < tokenizer->vocabulary(); ++id) {
    tokens.push_back({std::string(tokenizer->bytes(id)), tokenizer->is_added(id)});
  }
  return tokens;
}

}  // namespace deepinfer
