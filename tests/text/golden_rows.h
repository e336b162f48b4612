// Reading of tests/data/encoding: one JSON object a line.
#pragma once

#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "text/json_text.h"

namespace deepinfer {

inline std::vector<Json> golden_rows(const std::string& file) {
  std::ifstream in(std::string(DEEPINFER_TEST_DATA) + "/encoding/" + file);
  if (!in) throw std::runtime_error("cannot open " + file);
  std::vector<Json> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(Json::parse(line));
  return rows;
}

inline std::string from_base64(const std::string& text) {
  static const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t value = letters.find(c);
    if (value == std::string::npos) break;
    bits = bits << 6 | static_cast<unsigned>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return out;
}

}  // namespace deepinfer
