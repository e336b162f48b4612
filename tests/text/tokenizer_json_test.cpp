// Files that break a rule or ask for what is not implemented: one error that names the field, never a crash.
#include "text/tokenizer_json.h"

#include <stdexcept>

#include "tokenizer_files.h"

namespace deepinfer {
namespace {

using nlohmann::json;

std::string spelling_of_byte(int byte) {
  int extra = 0x100;
  for (int b = 0; b <= byte; ++b) {
    const bool itself = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    const int code_point = itself ? b : extra++;
    if (b == byte) {
      std::string text;
      if (code_point < 0x80) {
        text += static_cast<char>(code_point);
      } else {
        text += static_cast<char>(0xC0 | code_point >> 6);
        text += static_cast<char>(0x80 | (code_point & 0x3F));
      }
      return text;
    }
  }
  return {};
}

// The smallest whole tokenizer: 256 bytes, the merges "a b" and "ab c", one added token.
json small_file() {
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[spelling_of_byte(byte)] = byte;
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  return {{"added_tokens", json::array({{{"id", 258}, {"content", "<x>"}, {"special", true}, {"normalized", false}}})},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array({"a b", json::array({"ab", "c"})})}}}};
}

std::unique_ptr<Tokenizer> parsed(const json& file) {
  auto tokenizer = Tokenizer::parse(file.dump(), "test");
  if (!tokenizer.ok()) throw std::runtime_error(tokenizer.status().to_string());
  return std::move(tokenizer).value();
}

TEST(TokenizerJson, SmallFileWorks) {
  const auto tokenizer = parsed(small_file());
  const Tokenizer& t = *tokenizer;
  EXPECT_EQ(encode(t, "abc<x>ab"), (std::vector<int32_t>{257, 258, 256}));
  EXPECT_EQ(encode_plain(t, "<x>"), (std::vector<int32_t>{'<', 'x', '>'}));
  EXPECT_EQ(t.vocabulary(), 259);
  EXPECT_EQ(t.bytes(258), "<x>");
  EXPECT_EQ(t.bytes(259), "");
  EXPECT_EQ(t.bytes(-1), "");
  EXPECT_TRUE(t.is_special(258));
  EXPECT_FALSE(t.is_special(257));
  EXPECT_FALSE(t.is_added(-1));
  EXPECT_EQ(t.id("abc"), 257);
  EXPECT_EQ(t.id("<x>"), 258);
  EXPECT_EQ(t.added_id("abc"), std::nullopt);
  EXPECT_EQ(t.id("nothing"), std::nullopt);
}

TEST(TokenizerJson, MergesStandInBothSpellings) {
  json file = small_file();
  file["model"]["merges"] = json::array({"a b", "ab c"});
  EXPECT_EQ(encode(*parsed(file), "abc"), (std::vector<int32_t>{257}));
  file["model"]["merges"] = json::array({json::array({"a", "b"}), json::array({"ab", "c"})});
  EXPECT_EQ(encode(*parsed(file), "abc"), (std::vector<int32_t>{257}));
}

TEST(TokenizerJson, WholePiecesFirstWhereMergesAreIgnored) {
  json file = small_file();
  file["model"]["merges"] = json::array({"a b"});
  EXPECT_EQ(encode(*parsed(file), "abc"), (std::vector<int32_t>{256, 'c'}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(encode(*parsed(file), "abc"), (std::vector<int32_t>{257}));
}

TEST(TokenizerJson, NormalisesWhereTheFileAsksForIt) {
  json file = small_file();
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array({{{"type", "NFKC"}}})}};
  const auto tokenizer = parsed(file);
  EXPECT_EQ(encode(*tokenizer, "ａｂc"), (std::vector<int32_t>{257}));
  EXPECT_EQ(encode(*tokenizer, "e\u0301"), encode(*tokenizer, "é"));
  // A token that is looked for in the normalised text is found in either spelling, the others only as written.
  file["added_tokens"].push_back({{"id", 259}, {"content", "<y>"}, {"normalized", true}});
  const auto two = parsed(file);
  EXPECT_EQ(encode(*two, "＜y＞"), (std::vector<int32_t>{259}));
  EXPECT_EQ(encode(*two, "＜x＞"), (std::vector<int32_t>{'<', 'x', '>'}));
}

TEST(TokenizerJson, TheLongestAddedTokenWins) {
  json file = small_file();
  file["added_tokens"].push_back({{"id", 259}, {"content", "<x>y"}});
  file["added_tokens"].push_back({{"id", 260}, {"content", "<x"}});
  const auto tokenizer = parsed(file);
  file["added_tokens"][1]["normalized"] = file["added_tokens"][2]["normalized"] = false;
  const auto raw = parsed(file);
  EXPECT_EQ(encode(*raw, "<x>y<x><x"), (std::vector<int32_t>{259, 258, 260}));
  // Those of the text as written go first, whatever their length.
  EXPECT_EQ(encode(*tokenizer, "<x>y<x><x"), (std::vector<int32_t>{258, 'y', 258, 260}));
}

struct BadFile {
  const char* name;
  StatusCode code;
  const char* message;  // must occur in the error
  void (*change)(json& file);
};

const BadFile kBadFiles[] = {
    {"no model", StatusCode::kCorruptFile, "model: an object expected", [](json& f) { f.erase("model"); }},
    {"no vocab", StatusCode::kCorruptFile, "model.vocab: an object expected",
     [](json& f) { f["model"].erase("vocab"); }},
    {"vocab is a list", StatusCode::kCorruptFile, "model.vocab: an object expected",
     [](json& f) { f["model"]["vocab"] = json::array(); }},
    {"negative id", StatusCode::kCorruptFile, "model.vocab[\"ab\"]: a token id from 0",
     [](json& f) { f["model"]["vocab"]["ab"] = -1; }},
    {"huge id", StatusCode::kCorruptFile, "model.vocab[\"ab\"]: a token id from 0",
     [](json& f) { f["model"]["vocab"]["ab"] = 1 << 20; }},
    {"64-bit id", StatusCode::kCorruptFile, "model.vocab[\"ab\"]",
     [](json& f) { f["model"]["vocab"]["ab"] = UINT64_MAX; }},
    {"fractional id", StatusCode::kCorruptFile, "model.vocab[\"ab\"]",
     [](json& f) { f["model"]["vocab"]["ab"] = 1.5; }},
    {"id twice", StatusCode::kCorruptFile, "model.vocab[", [](json& f) { f["model"]["vocab"]["ab"] = 257; }},
    {"byte missing", StatusCode::kCorruptFile, "no token for the byte 0x7A",
     [](json& f) { f["model"]["vocab"].erase("z"); }},
    {"byte token trick", StatusCode::kCorruptFile, "outside the byte-level alphabet",
     [](json& f) { f["model"]["vocab"]["<0x-1> "] = 300; }},
    {"empty spelling", StatusCode::kCorruptFile, "1 to 4096 bytes expected, 0 found",
     [](json& f) { f["model"]["vocab"][""] = 300; }},
    {"long spelling", StatusCode::kCorruptFile, "5000 found",
     [](json& f) { f["model"]["vocab"][std::string(5000, 'a')] = 300; }},
    {"merge of unknown part", StatusCode::kCorruptFile, "model.merges[0]: \"aq\" is not in model.vocab",
     [](json& f) { f["model"]["merges"][0] = "aq b"; }},
    {"merge of unknown result", StatusCode::kCorruptFile, "model.merges[1]: the result \"abd\" is not",
     [](json& f) { f["model"]["merges"][1] = "ab d"; }},
    {"merge without space", StatusCode::kCorruptFile, "model.merges[0]: two token spellings",
     [](json& f) { f["model"]["merges"][0] = "ab"; }},
    {"merge of three", StatusCode::kCorruptFile, "model.merges[0]", [](json& f) { f["model"]["merges"][0] = "a b c"; }},
    {"merge with empty part", StatusCode::kCorruptFile, "model.merges[0]: \"\" is not",
     [](json& f) { f["model"]["merges"][0] = " ab"; }},
    {"merge list of three", StatusCode::kCorruptFile, "model.merges[0]",
     [](json& f) {
       f["model"]["merges"][0] = json::array({"a", "b", "c"});
     }},
    {"merge is a number", StatusCode::kCorruptFile, "model.merges[0]", [](json& f) { f["model"]["merges"][0] = 7; }},
    {"merge twice", StatusCode::kCorruptFile, "model.merges[2]: \"a\" \"b\" appears twice",
     [](json& f) { f["model"]["merges"].push_back("a b"); }},
    {"merges is an object", StatusCode::kCorruptFile, "model.merges: an array",
     [](json& f) { f["model"]["merges"] = json::object(); }},
    {"dropout", StatusCode::kUnsupported, "model.dropout", [](json& f) { f["model"]["dropout"] = 0.1; }},
    {"suffix", StatusCode::kUnsupported, "model.end_of_word_suffix",
     [](json& f) { f["model"]["end_of_word_suffix"] = "</w>"; }},
    {"WordPiece", StatusCode::kUnsupported, "model.type: \"WordPiece\" is not supported (supported: BPE)",
     [](json& f) { f["model"]["type"] = "WordPiece"; }},
    {"added id twice", StatusCode::kCorruptFile, "added_tokens[1].id: 258 appears twice",
     [](json& f) {
       f["added_tokens"].push_back({{"id", 258}, {"content", "<y>"}});
     }},
    {"added content twice", StatusCode::kCorruptFile, "added_tokens[1].content: \"<x>\" appears twice",
     [](json& f) {
       f["added_tokens"].push_back({{"id", 259}, {"content", "<x>"}});
     }},
    {"added over ordinary", StatusCode::kCorruptFile, "has the id 257 of the added token",
     [](json& f) { f["added_tokens"][0]["id"] = 257; }},
    {"added with other id", StatusCode::kCorruptFile, "has id 256, but added_tokens give it 258",
     [](json& f) { f["added_tokens"][0]["content"] = "ab"; }},
    {"added id negative", StatusCode::kCorruptFile, "added_tokens[0].id: a token id from 0",
     [](json& f) { f["added_tokens"][0]["id"] = -5; }},
    {"added without id", StatusCode::kCorruptFile, "added_tokens[0].id",
     [](json& f) { f["added_tokens"][0].erase("id"); }},
    {"added empty", StatusCode::kCorruptFile, "added_tokens[0].content: 1 to 4096",
     [](json& f) { f["added_tokens"][0]["content"] = ""; }},
    {"added lstrip", StatusCode::kUnsupported, "added_tokens[0].lstrip",
     [](json& f) { f["added_tokens"][0]["lstrip"] = true; }},
    {"added is a string", StatusCode::kCorruptFile, "added_tokens[0]: an object expected",
     [](json& f) { f["added_tokens"][0] = "<x>"; }},
    {"truncation", StatusCode::kUnsupported, "truncation",
     [](json& f) {
       f["truncation"] = {{"max_length", 5}};
     }},
    {"normalizer unknown", StatusCode::kUnsupported, "normalizer.type: \"Lowercase\"",
     [](json& f) {
       f["normalizer"] = {{"type", "Lowercase"}};
     }},
    {"no pre_tokenizer", StatusCode::kCorruptFile, "pre_tokenizer: an object expected",
     [](json& f) { f.erase("pre_tokenizer"); }},
    {"pre_tokenizer unknown", StatusCode::kUnsupported, "pre_tokenizer.type: \"Metaspace\"",
     [](json& f) {
       f["pre_tokenizer"] = {{"type", "Metaspace"}};
     }},
    {"prefix space", StatusCode::kUnsupported, "pre_tokenizer.add_prefix_space",
     [](json& f) { f["pre_tokenizer"]["add_prefix_space"] = true; }},
    {"no byte level", StatusCode::kUnsupported, "only byte-level",
     [](json& f) {
       f["pre_tokenizer"] = {{"type", "Digits"}};
     }},
    {"behind byte level", StatusCode::kUnsupported, "pre_tokenizer.pretokenizers[1]",
     [](json& f) {
       f["pre_tokenizer"] = {{"type", "Sequence"},
                             {"pretokenizers", json::array({f["pre_tokenizer"], {{"type", "Digits"}}})}};
     }},
    {"bad behavior", StatusCode::kUnsupported, "pre_tokenizer.behavior: \"Gone\"",
     [](json& f) {
       f["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Gone"}};
     }},
    {"bad expression", StatusCode::kUnsupported, "pre_tokenizer.pretokenizers[0].pattern",
     [](json& f) {
       f["pre_tokenizer"] = {
           {"type", "Sequence"},
           {"pretokenizers", json::array({{{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}},
                                          f["pre_tokenizer"]})}};
     }},
    {"decoder unknown", StatusCode::kUnsupported, "decoder.type: \"WordPiece\"",
     [](json& f) {
       f["decoder"] = {{"type", "WordPiece"}};
     }},
    {"post_processor unknown", StatusCode::kUnsupported, "post_processor.type",
     [](json& f) {
       f["post_processor"] = {{"type", "Magic"}};
     }},
};

TEST(TokenizerJson, BadFilesNameTheirField) {
  for (const BadFile& bad : kBadFiles) {
    json file = small_file();
    bad.change(file);
    const auto tokenizer = Tokenizer::parse(file.dump(), "folder/tokenizer.json");
    ASSERT_FALSE(tokenizer.ok()) << bad.name;
    EXPECT_EQ(tokenizer.status().code(), bad.code) << bad.name << ": " << tokenizer.status().to_string();
    const std::string message = tokenizer.status().message();
    EXPECT_TRUE(message.starts_with("folder/tokenizer.json: ")) << message;
    EXPECT_NE(message.find(bad.message), std::string::npos) << bad.name << ": " << message;
  }
}

TEST(TokenizerJson, DuplicateVocabEntryIsFound) {
  std::string text = small_file().dump();
  text.replace(text.find("\"ab\":256"), 8, "\"ab\":256,\"ab\":300");
  const auto tokenizer = Tokenizer::parse(text, "t");
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_NE(tokenizer.status().message().find("model.vocab[\"ab\"]"), std::string::npos)
      << tokenizer.status().message();
}

TEST(TokenizerJson, BrokenJson) {
  const std::string whole = small_file().dump();
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    EXPECT_FALSE(Tokenizer::parse(whole.substr(0, size), "t").ok()) << size;
  }
  std::string deep = whole;
  deep.replace(deep.find("\"normalizer\":null"), 17,
               "\"normalizer\":" + std::string(100'000, '[') + std::string(100'000, ']'));
  EXPECT_FALSE(Tokenizer::parse(deep, "t").ok());
  std::string sequences = "{\"type\":\"NFC\"}";
  for (int i = 0; i < 40; ++i) sequences = "{\"type\":\"Sequence\",\"normalizers\":[" + sequences + "]}";
  std::string nested = whole;
  nested.replace(nested.find("\"normalizer\":null"), 17, "\"normalizer\":" + sequences);
  EXPECT_FALSE(Tokenizer::parse(nested, "t").ok());  // deeper than 64 levels
  EXPECT_FALSE(Tokenizer::parse("[]", "t").ok());
  EXPECT_FALSE(Tokenizer::parse(std::string("\xFF\xFE\0", 3), "t").ok());
}

TEST(TokenizerJson, MissingFile) {
  const auto tokenizer = Tokenizer::load("/no/such/tokenizer.json");
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kNotFound);
  EXPECT_NE(tokenizer.status().message().find("/no/such/tokenizer.json"), std::string::npos);
  EXPECT_FALSE(Tokenizer::load("/").ok());
}

}  // namespace
}  // namespace deepinfer
