// The Engram token map: which tokens count as the same word part (specs: v41-model.md 2.8).  A checkpoint may carry it
// as engram_token_map.json; otherwise it is built from the tokenizer's tokens.  This library knows no tokenizer, so the
// engine passes the tokens in (ModelOptions::tokens).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/open_model.h"

namespace deepinfer::deepseek_v41 {

struct EngramTokenMap {
  std::vector<int32_t> classes;  // of each token id
  int64_t count = 0;             // classes
};

// {"map": [class of each id], "classes": count}.  Errors name `source`: other JSON, a class that is out of range or
// never used.
Result<EngramTokenMap> parse_engram_token_map(std::string_view json, std::string_view source);

// tokens by id; classes are numbered by first appearance.
EngramTokenMap build_engram_token_map(std::span<const TokenSpelling> tokens);

// NFKC, NFD, no combining marks, lower case, runs of space, tab and line breaks as one space, trimmed (a lone space
// stays).  text is valid UTF-8.
std::string fold_token_text(std::string_view text);

}  // namespace deepinfer::deepseek_v41
