// Unicode normalisation forms, for tokenizer.json files that ask for one (DeepSeek's do not).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace deepinfer {

enum class NormalForm : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// `text` is valid UTF-8.
std::string normalize(std::string_view text, NormalForm form);

}  // namespace deepinfer
