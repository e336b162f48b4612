// Makes the bytes of a safetensors file from its header text.  Used by the tests of the reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace deepinfer {

inline std::string length_prefix(uint64_t length) {
  std::string text(8, '\0');
  for (size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(length >> (8 * i));
  return text;
}

// Data bytes count up from 0.
inline std::string safetensors_file(std::string_view header, size_t data_bytes) {
  std::string text = length_prefix(header.size());
  text += header;
  for (size_t i = 0; i < data_bytes; ++i) text += static_cast<char>(i);
  return text;
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace deepinfer
