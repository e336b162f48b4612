// Ids and round trips of the golden rows, for the demonstration model's tokenizer and for DeepSeek's own.
#include "text/stream_decoder.h"
#include "tokenizer_files.h"

namespace deepinfer {
namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

void check_rows(const Tokenizer& tokenizer, const std::string& file, bool added) {
  int rows = 0;
  for (const auto& row : read_json_rows(file)) {
    const auto text = row.at("text").get<std::string>();
    const auto expected = row.at("ids").get<std::vector<int32_t>>();
    SCOPED_TRACE(file + ": " + row.dump());
    ASSERT_EQ(added ? encode(tokenizer, text) : encode_plain(tokenizer, text), expected);
    if (row.contains("bytes_hex")) {
      const std::string raw = from_hex(row.at("bytes_hex"));
      ASSERT_EQ(added ? encode(tokenizer, raw) : encode_plain(tokenizer, raw), expected);
    }
    ASSERT_EQ(tokenizer.decode(expected), text);
    StreamDecoder decoder(tokenizer);
    std::string streamed;
    for (const int32_t id : expected) streamed += decoder.push(id);
    ASSERT_EQ(streamed + decoder.finish(), text);
    ++rows;
  }
  EXPECT_EQ(rows, added ? 780 : 324);
}

TEST(TokenizerGolden, TinyWithAddedTokens) {
  check_rows(tiny_tokenizer(), "tokenizer/tiny.jsonl", true);
}
TEST(TokenizerGolden, TinyPlain) {
  check_rows(tiny_tokenizer(), "tokenizer/tiny_plain.jsonl", false);
}

TEST(TokenizerGolden, DeepSeekWithAddedTokens) {
  DEEPINFER_NEEDS_DEEPSEEK_TOKENIZER();
  check_rows(*deepseek_tokenizer(), "tokenizer/deepseek_v4.jsonl", true);
}

TEST(TokenizerGolden, DeepSeekPlain) {
  DEEPINFER_NEEDS_DEEPSEEK_TOKENIZER();
  check_rows(*deepseek_tokenizer(), "tokenizer/deepseek_v4_plain.jsonl", false);
}

}  // namespace
}  // namespace deepinfer
