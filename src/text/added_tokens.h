// AddedTokens: finds the spellings of the added vocabulary ("<｜User｜>", "<think>") in a text.
// Owned by Tokenizer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer {

struct AddedToken {
  std::int32_t id = 0;
  std::string spelling;     // not empty
  bool special = false;     // left out when decoding for display, by Hugging Face's rule
  bool normalized = false;  // looked for in the normalised text, after all the others
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // Spellings are unique.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // The id of exactly this spelling.
  std::optional<std::int32_t> find(std::string_view spelling) const;

  struct Match {
    std::size_t begin;
    std::size_t end;
    std::int32_t id;
  };
  // The first place at or after `from` where a spelling stands, and there the longest one.
  std::optional<Match> next(std::string_view text, std::size_t from) const;

 private:
  std::vector<AddedToken> tokens_;  // by spelling
  std::array<bool, 256> starts_{};  // bytes that begin a spelling
};

}  // namespace deepinfer
