// The byte-level alphabet: how tokenizer.json spells raw bytes as printable characters (GPT-2's mapping).
// Used when a tokenizer.json is read; text itself never passes through this alphabet.
#pragma once

#include <string>
#include <string_view>

namespace deepinfer {

// The raw bytes that a spelling such as "Ġthe" stands for, appended to `bytes`; false (and `bytes` as before) when a
// character is outside the alphabet or the spelling is not UTF-8.
bool append_byte_level(std::string_view spelling, std::string& bytes);

}  // namespace deepinfer
