#include "byte_vocabulary.h"

#include <stdexcept>

namespace deepinfer {

GrammarVocabulary byte_vocabulary() {
  GrammarVocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  vocabulary.tokens.emplace_back();
  return vocabulary;
}

const Tokenizer& tiny_tokenizer() {
  static const std::unique_ptr<Tokenizer> kTokenizer =
      Tokenizer::load(std::string(DEEPINFER_TEST_MODEL) + "/tokenizer.json").value();
  return *kTokenizer;
}

GrammarVocabulary tiny_vocabulary() {
  const Tokenizer& tokenizer = tiny_tokenizer();
  GrammarVocabulary vocabulary;
  for (int32_t id = 0; id < tokenizer.vocabulary(); ++id) {
    const bool control = tokenizer.is_added(id) && tokenizer.bytes(id) != "｜DSML｜";
    vocabulary.tokens.emplace_back(control ? std::string_view() : tokenizer.bytes(id));
  }
  return vocabulary;
}

GrammarSpec spec_of(GrammarSpec::Kind kind, std::string text, bool strict) {
  GrammarSpec spec;
  spec.kind = kind;
  spec.text = std::move(text);
  spec.strict = strict;
  return spec;
}

bool takes(const SharedGrammar& grammar, const GrammarSpec& spec, std::string_view text, const Tokenizer* tokenizer) {
  std::vector<int32_t> tokens;
  if (tokenizer != nullptr) {
    if (!tokenizer->encode(text, tokens).ok()) throw std::logic_error("the text cannot be encoded");
    tokens.push_back(kTinyStop);
  } else {
    for (const char byte : text) tokens.push_back(static_cast<uint8_t>(byte));
    tokens.push_back(kByteStop);
  }
  Result<GrammarMatcher> matcher = GrammarMatcher::create(grammar, spec, std::span(&tokens.back(), 1));
  if (!matcher.ok()) throw std::logic_error(matcher.status().message());
  std::vector<uint32_t> mask(matcher->mask_words());
  for (const int32_t token : tokens) {
    const Status filled = matcher->fill_mask(mask);
    const bool allowed = filled.ok() && (mask[static_cast<size_t>(token / 32)] >> (token % 32) & 1) != 0;
    if (matcher->accept(token) != allowed)
      throw std::logic_error("mask and accept disagree at token " + std::to_string(token) + " of " + std::string(text));
    if (!allowed) return false;
  }
  return matcher->is_terminated();
}

}  // namespace deepinfer
