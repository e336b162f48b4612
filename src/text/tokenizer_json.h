// Reads a tokenizer.json into the parts that Tokenizer is made of, and refuses what breaks a rule.
// No number in the file is trusted: ids are unique and below Bpe::kMaxIds, every merge's parts and result are tokens,
// every byte has a token, sizes are capped, and a component of an unknown type is an error, never skipped.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/splitter.h"
#include "text/vocabulary.h"

namespace deepinfer {

struct TokenizerParts {
  Vocabulary vocabulary;                   // ordinary tokens, and the spellings of added ones
  std::array<std::int32_t, 256> byte_ids;  // the token of each single byte
  std::vector<MergeRule> merges;           // by rank; pairs are unique
  std::vector<AddedToken> added;           // unique ids and spellings
  std::vector<NormalForm> normalizers;     // applied in this order
  std::vector<SplitRule> splits;           // applied in this order
  bool whole_pieces_first = false;         // model.ignore_merges: a piece that is a token needs no merging
};

// kCorruptFile or kUnsupported; messages begin with `name` and the field.
Result<TokenizerParts> read_tokenizer_json(std::string_view json, std::string_view name);

}  // namespace deepinfer
