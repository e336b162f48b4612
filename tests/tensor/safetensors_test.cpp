// The rules of the safetensors format, one crafted file each; the names follow the reference implementation's tests
// where it has the same case.  Every refusal must name the rule, the tensor and the numbers.
#include "tensor/safetensors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "safetensors_checker.h"
#include "safetensors_file.h"
#include "temporary_folder.h"

namespace deepinfer {
namespace {

struct Crafted {
  const char* name;
  std::string content;
  std::vector<std::string> message;  // parts that must be there; none: the file is good
};

std::string file(std::string_view header, size_t data_bytes) {
  return safetensors_file(header, data_bytes);
}

std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets, size_t data_bytes) {
  return file(R"({"t":{"dtype":)" + std::string(dtype) + R"(,"shape":)" + std::string(shape) + R"(,"data_offsets":)" +
                  std::string(offsets) + "}}",
              data_bytes);
}

std::string nested(int depth) {
  return "{\"t\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
}

std::vector<Crafted> crafted_files() {
  const std::string ok = R"("dtype":"U8","shape":[4],"data_offsets":[0,4])";
  return {
      // The frame.
      {"file_empty", "", {"header", "0 bytes", "needs 8"}},
      {"header_too_small", std::string(7, '\0'), {"header", "7 bytes", "needs 8"}},
      {"header_empty", length_prefix(0), {"offset 8", "'{'"}},
      {"header_too_large", length_prefix(100'000'001) + "{}", {"offset 0", "100000001", "at most 100000000"}},
      {"invalid_header_length", length_prefix(60) + "{}", {"offset 0", "is 60", "only 2 bytes follow"}},
      {"length_two_to_the_64_minus_1", std::string(8, '\xFF') + "{}", {"18446744073709551615"}},
      {"length_wraps_around_8", length_prefix(std::numeric_limits<uint64_t>::max() - 7) + "{}", {"at most 100000000"}},
      {"truncated_in_header", file(R"({"t":{)" + ok + "}}", 4).substr(0, 30), {"only 22 bytes follow"}},
      {"truncated_in_data", file(R"({"t":{)" + ok + "}}", 3), {"\"t\"", "[0, 4]", "beyond the 3 data bytes"}},
      // The JSON.
      {"header_non_utf8", file("{\"\xFF\":{" + ok + "}}", 4), {"header", "not UTF-8", "byte 10"}},
      {"header_overlong_utf8", file("{\"a\xC0\xAF\":{" + ok + "}}", 4), {"not UTF-8", "byte 11"}},
      {"header_utf8_surrogate", file("{\"\xED\xA0\x80\":{" + ok + "}}", 4), {"not UTF-8", "byte 10"}},
      {"header_not_json", file("{ this is no JSON", 0), {"header", "JSON"}},
      {"header_an_array", file("[]", 0), {"offset 8", "'{'"}},
      {"header_a_string", file("\"x\"", 0), {"offset 8", "'{'"}},
      {"header_null", file("null", 0), {"offset 8", "'{'"}},
      {"leading_space_header", file(R"( {"t":{)" + ok + "}}", 4), {"offset 8", "'{'"}},
      {"leading_byte_order_mark", file("\xEF\xBB\xBF{\"t\":{" + ok + "}}", 4), {"offset 8", "'{'"}},
      {"trailing_comma", file(R"({"t":{)" + ok + "},}", 4), {"JSON", "byte"}},
      {"missing_colon", file(R"({"t" {)" + ok + "}}", 4), {"JSON", "byte 13"}},
      {"text_after_object", file(R"({"t":{)" + ok + "}} x", 4), {"JSON"}},
      {"second_object", file(R"({"t":{)" + ok + "}}{}", 4), {"JSON"}},
      {"unclosed", file(R"({"t":{)" + ok + "}", 4), {"JSON"}},
      {"nul_after_object", file(R"({"t":{)" + ok + "}}" + std::string(1, '\0'), 4), {"JSON"}},
      {"bare_nan", one("\"U8\"", "[NaN]", "[0,4]", 4), {"JSON"}},
      {"lone_surrogate_escape", file(R"({"\ud800":{)" + ok + "}}", 4), {"JSON"}},
      {"raw_control_character", file("{\"a\nb\":{" + ok + "}}", 4), {"control character"}},
      {"nested_deeply", file(nested(100'000), 0), {"nested deeper than 16"}},
      {"trailing_spaces", file(R"({"t":{)" + ok + "}}      ", 4), {}},
      {"spaces_inside", file(R"({ "t" : { "dtype" : "U8" , "shape":[ 4 ],"data_offsets":[ 0 , 4 ] } })", 4), {}},
      // Keys.
      {"duplicate_key", file(R"({"t":{)" + ok + R"(},"t":{)" + ok + "}}", 4), {"\"t\"", "duplicate key"}},
      {"duplicate_key_by_escape", file(R"({"t":{)" + ok + R"(},"\u0074":{)" + ok + "}}", 4), {"\"t\"", "duplicate"}},
      {"duplicate_empty_tensor",
       file(
           R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
           0),
       {"\"t\"", "duplicate key"}},
      {"duplicate_field", file(R"({"t":{"dtype":"U8",)" + ok + "}}", 4), {"\"t\"", "duplicate key \"dtype\""}},
      {"unknown_field", file(R"({"t":{"scale":1,)" + ok + "}}", 4), {"\"t\"", "unknown key \"scale\""}},
      {"no_dtype", file(R"({"t":{"shape":[4],"data_offsets":[0,4]}})", 4), {"\"t\"", "no dtype"}},
      {"no_shape", file(R"({"t":{"dtype":"U8","data_offsets":[0,4]}})", 4), {"\"t\"", "no shape"}},
      {"no_offsets", file(R"({"t":{"dtype":"U8","shape":[4]}})", 4), {"\"t\"", "no data_offsets"}},
      {"invalid_info", file(R"({"t":[]})", 0), {"\"t\"", "must be an object, not an array"}},
      {"null_info", file(R"({"t":null})", 0), {"\"t\"", "must be an object, not null"}},
      {"empty_name", file(R"({"":{)" + ok + "}}", 4), {}},
      {"name_with_nul", file(R"({"a\u0000b":{)" + ok + "}}", 3), {"\"a\\x00b\""}},
      // Metadata.
      {"metadata_ok", file(R"({"__metadata__":{"a":"b","":""},"t":{)" + ok + "}}", 4), {}},
      {"metadata_null", file(R"({"__metadata__":null})", 0), {"__metadata__", "not null"}},
      {"metadata_number", file(R"({"__metadata__":{"a":1}})", 0), {"__metadata__", "\"a\"", "not an integer"}},
      {"metadata_nested", file(R"({"__metadata__":{"a":{}}})", 0), {"__metadata__", "\"a\"", "not an object"}},
      {"metadata_duplicate", file(R"({"__metadata__":{"a":"1","a":"2"}})", 0), {"__metadata__", "duplicate key \"a\""}},
      {"metadata_twice", file(R"({"__metadata__":{},"__metadata__":{}})", 0), {"duplicate key \"__metadata__\""}},
      // dtype and shape.
      {"unknown_dtype", one("\"F5\"", "[4]", "[0,4]", 4), {"\"t\"", "unknown dtype \"F5\""}},
      {"dtype_lower_case", one("\"u8\"", "[4]", "[0,4]", 4), {"unknown dtype \"u8\""}},
      {"dtype_number", one("8", "[4]", "[0,4]", 4), {"\"t\"", "dtype must be a string, not an integer"}},
      {"shape_negative", one("\"U8\"", "[-4]", "[0,4]", 4), {"\"t\"", "shape[0] is -4, negative"}},
      {"shape_two_negatives", one("\"U8\"", "[-2,-2]", "[0,4]", 4), {"shape[0] is -2"}},
      {"shape_float", one("\"U8\"", "[4.0]", "[0,4]", 4), {"shape[0]", "fraction"}},
      {"shape_exponent", one("\"U8\"", "[4e0]", "[0,4]", 4), {"shape[0]", "exponent"}},
      {"shape_string", one("\"U8\"", "[\"4\"]", "[0,4]", 4), {"shape[0]", "a string"}},
      {"shape_scalar", one("\"U8\"", "4", "[0,4]", 4), {"shape must be an array, not an integer"}},
      {"shape_two_to_the_63", one("\"U8\"", "[9223372036854775808]", "[0,4]", 4), {"shape[0]", "above 2^63"}},
      {"shape_two_to_the_64", one("\"U8\"", "[18446744073709551616]", "[0,4]", 4), {"JSON", "too large number"}},
      {"validation_overflow", one("\"F32\"", "[2,9223372036854775807]", "[0,4]", 4), {"\"t\"", "product", "overflows"}},
      {"overflow_to_zero", one("\"U8\"", "[4294967296,4294967296,1]", "[0,0]", 0), {"product", "overflows"}},
      {"overflow_of_bits", one("\"F64\"", "[2305843009213693952]", "[0,0]", 0), {"overflows 2^64 bits"}},
      {"rank_8", one("\"U8\"", "[1,1,1,1,2,1,1,2]", "[0,4]", 4), {}},
      {"rank_9", one("\"U8\"", "[1,1,1,1,1,1,1,1,4]", "[0,4]", 4), {"\"t\"", "9 dimensions, at most 8"}},
      {"scalar", one("\"F32\"", "[]", "[0,4]", 4), {}},
      {"zero_sized_tensor", one("\"F32\"", "[2,0,3]", "[0,0]", 0), {}},
      {"zero_sized_beyond_data", one("\"F32\"", "[0]", "[1,1]", 0), {"beyond the 0 data bytes"}},
      {"no_tensor", file("{}", 0), {}},
      // data_offsets.
      {"offsets_negative", one("\"U8\"", "[4]", "[-4,0]", 4), {"\"t\"", "data_offsets[0] is -4"}},
      {"offsets_length_1", one("\"U8\"", "[4]", "[4]", 4), {"\"t\"", "2 integers, not 1"}},
      {"offsets_length_3", one("\"U8\"", "[4]", "[0,4,4]", 4), {"\"t\"", "2 integers, not 3"}},
      {"offsets_float", one("\"U8\"", "[4]", "[0.0,4.0]", 4), {"\"t\"", "data_offsets[0]", "fraction"}},
      {"offsets_object", one("\"U8\"", "[4]", "{}", 4), {"data_offsets must be an array, not an object"}},
      {"offsets_reversed", one("\"U8\"", "[4]", "[4,0]", 4), {"\"t\"", "[4, 0]", "begin after their end"}},
      {"offsets_huge", one("\"U8\"", "[4]", "[9223372036854775803,9223372036854775807]", 4), {"beyond the 4"}},
      {"offsets_wrong_size", one("\"F32\"", "[4]", "[0,4]", 4), {"\"t\"", "hold 4 bytes", "[4] of F32 needs 16"}},
      {"fp4_misaligned", one("\"F4\"", "[3]", "[0,2]", 2), {"\"t\"", "[3] of F4", "12 bits"}},
      {"fp4_ok", one("\"F4\"", "[4]", "[0,2]", 2), {}},
      // Coverage.
      {"json_attack",
       file(
           R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
           4),
       {"\"b\"", "[0, 4]", "overlap", "\"a\""}},
      {"partial_overlap",
       file(
           R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
           6),
       {"\"b\"", "overlap", "\"a\"", "ends at 4"}},
      {"hole",
       file(
           R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[2],"data_offsets":[6,8]}})",
           8),
       {"\"b\"", "hole after", "\"a\"", "ends at 4"}},
      {"hole_at_start", one("\"U8\"", "[2]", "[2,4]", 4), {"\"t\"", "hole after the start"}},
      {"metadata_incomplete_buffer", one("\"U8\"", "[2]", "[0,2]", 4), {"end at data byte 2", "has 4 data bytes"}},
      {"data_without_tensors", file("{}", 1), {"end at data byte 0", "has 1 data bytes"}},
      {"empty_tensor_inside_another",
       file(
           R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})",
           4),
       {"\"b\"", "overlap"}},
      {"any_order",
       file(
           R"({"c":{"dtype":"U8","shape":[1],"data_offsets":[6,7]},"b":{"dtype":"U8","shape":[0],"data_offsets":[4,4]},)"
           R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"d":{"dtype":"F16","shape":[],"data_offsets":[4,6]}})",
           7),
       {}},
  };
}

TEST(SafetensorsHeader, CraftedFiles) {
  for (const Crafted& crafted : crafted_files()) {
    SCOPED_TRACE(crafted.name);
    const auto bytes = as_bytes(crafted.content);
    const Result<SafetensorsHeader> header = parse_safetensors_header(bytes, bytes.size());
    EXPECT_EQ(disagreement(bytes, bytes.size()), "");
    EXPECT_EQ(header.ok(), crafted.message.empty()) << header.status().message();
    if (header.ok()) continue;
    EXPECT_EQ(header.status().code(), StatusCode::kCorruptFile);
    for (const std::string& part : crafted.message) {
      EXPECT_NE(header.status().message().find(part), std::string::npos)
          << "no \"" << part << "\" in: " << header.status().message();
    }
  }
}

TEST(SafetensorsHeader, CraftedFilesOnDisk) {
  const TemporaryFolder folder;
  for (const Crafted& crafted : crafted_files()) {
    SCOPED_TRACE(crafted.name);
    const std::string path = folder.write(std::string(crafted.name) + ".safetensors", crafted.content);
    const Result<Safetensors> opened = Safetensors::open(path);
    EXPECT_EQ(opened.ok(), crafted.message.empty()) << opened.status().message();
    if (!opened.ok()) {
      EXPECT_EQ(opened.status().message().find(path + ": "), 0u) << opened.status().message();
    }
  }
}

TEST(SafetensorsHeader, NeedsTheWholeHeader) {
  const std::string content = file(R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4);
  for (size_t given = 8; given < content.size() - 4; ++given) {
    const auto header = parse_safetensors_header(as_bytes(content).first(given), content.size());
    ASSERT_FALSE(header.ok());
    EXPECT_EQ(header.status().code(), StatusCode::kInvalidArgument) << given;
  }
  EXPECT_TRUE(parse_safetensors_header(as_bytes(content).first(content.size() - 4), content.size()).ok());
}

TEST(SafetensorsHeader, EveryTruncationIsRefused) {
  const std::string content =
      file(R"({"__metadata__":{"format":"pt"},"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}  )", 4);
  for (size_t size = 0; size < content.size(); ++size) {
    EXPECT_FALSE(parse_safetensors_header(as_bytes(content).first(size), size).ok()) << size;
  }
}

// A length field that lies must not make the reader reserve memory: the largest legal one over an empty file.
TEST(SafetensorsHeader, LengthIsCheckedBeforeAnythingIsReserved) {
  const std::string content = length_prefix(100'000'000);
  const auto header = parse_safetensors_header(as_bytes(content), content.size());
  ASSERT_FALSE(header.ok());
  EXPECT_NE(header.status().message().find("only 0 bytes follow"), std::string::npos) << header.status().message();
}

TEST(Safetensors, ReadsValuesMetadataAndViews) {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "x.safetensors", file(R"({"__metadata__":{"k":"v"},"b":{"dtype":"I8","shape":[2,2],"data_offsets":[4,8]},)"
                            R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                            8));
  const Result<Safetensors> opened = Safetensors::open(path);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->header().metadata, (std::vector<std::pair<std::string, std::string>>{{"k", "v"}}));
  ASSERT_EQ(opened->tensors().size(), 2u);
  EXPECT_EQ(opened->tensors()[0].name, "a");
  const std::optional<TensorView> b = opened->find("b");
  ASSERT_TRUE(b.has_value());
  EXPECT_EQ(b->shape, (Shape{2, 2}));
  EXPECT_EQ(b->bytes(), 4u);
  EXPECT_EQ(b->as<int8_t>()[3], 7);
  EXPECT_FALSE(opened->find("c").has_value());
}

TEST(Safetensors, NamesThePathThatCannotBeOpened) {
  const TemporaryFolder folder;
  const Result<Safetensors> missing = Safetensors::open(folder / "no.safetensors");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find(folder / "no.safetensors"), std::string::npos);
  EXPECT_EQ(Safetensors::open(folder.path()).status().code(), StatusCode::kInvalidArgument);
}

// The header of a real file, damaged at random: no crash, and what is accepted is right by the independent checker.
void mutate(std::string& text, std::mt19937_64& random) {
  static const std::vector<std::string> kPieces = {"\"",
                                                   "{",
                                                   "}",
                                                   "[",
                                                   "]",
                                                   ",",
                                                   ":",
                                                   "-",
                                                   "0",
                                                   "9",
                                                   ".",
                                                   "e9",
                                                   "null",
                                                   "true",
                                                   " ",
                                                   "\\",
                                                   "\\u0000",
                                                   "\xFF",
                                                   "\xE2\x82",
                                                   "18446744073709551616",
                                                   "9223372036854775807",
                                                   "\"F4\"",
                                                   "\"__metadata__\":{},",
                                                   "[]",
                                                   "{}"};
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  const size_t edits = 1 + below(4);
  for (size_t i = 0; i < edits && !text.empty(); ++i) {
    const size_t place = below(text.size());
    switch (below(7)) {
      case 0:
        text[place] = static_cast<char>(random());
        break;
      case 1:
        text[place] = static_cast<char>(text[place] ^ (1 << below(8)));
        break;
      case 2:
        text.erase(place, 1 + below(20));
        break;
      case 3:
        text.insert(place, kPieces[below(kPieces.size())]);
        break;
      case 4:
        text.insert(place, text.substr(below(text.size()), 1 + below(80)));
        break;
      case 5: {  // another digit in place of one
        const size_t digit = text.find_first_of("0123456789", place);
        if (digit != std::string::npos) text[digit] = static_cast<char>('0' + below(10));
        break;
      }
      default:
        text.resize(place);
        break;
    }
  }
}

// The last `count` tensors of a header, so that a mutation meets something soon and a run is short.
std::string small_header(const SafetensorsHeader& header, size_t first, size_t count) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  const uint64_t start = header.tensors[first].begin;
  for (size_t i = first; i < first + count; ++i) {
    const TensorInfo& tensor = header.tensors[i];
    text += ",\"" + std::string(tensor.name) + "\":{\"dtype\":\"" + std::string(to_string(tensor.dtype)) +
            "\",\"shape\":" + to_string(tensor.shape) + ",\"data_offsets\":[" + std::to_string(tensor.begin - start) +
            "," + std::to_string(tensor.end - start) + "]}";
  }
  return text + "}";
}

TEST(SafetensorsHeader, RandomMutationsOfTheDemonstrationModel) {
  std::mt19937_64 random(20250731);
  int accepted = 0;
  int refused = 0;
  const auto check = [&](const std::string& content, uint64_t file_size) {
    ASSERT_EQ(disagreement(as_bytes(content), file_size), "") << content.substr(0, 3000);
    ++(checked_header(as_bytes(content), file_size).has_value() ? accepted : refused);
  };
  for (const char* name : {"1", "2", "3"}) {
    const std::string path = std::string(DEEPINFER_TEST_MODEL) + "/model-0000" + name + "-of-00003.safetensors";
    const Result<Safetensors> opened = Safetensors::open(path);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const SafetensorsHeader& header = opened->header();
    std::string whole(header.data_start, '\0');
    std::ifstream(path, std::ios::binary).read(whole.data(), static_cast<std::streamsize>(whole.size()));

    // The whole header, first as it is, then with its length field or text damaged; the file keeps its size.
    check(whole, opened->file().size());
    for (int i = 0; i < 100; ++i) {
      std::string damaged = whole;
      if (i % 4 == 0) {
        damaged[random() % 8] ^= static_cast<char>(1 << random() % 8);
      } else {
        std::string text = damaged.substr(8);
        mutate(text, random);
        damaged = length_prefix(text.size()) + text;
      }
      check(damaged, opened->file().size() - whole.size() + damaged.size());
    }
    // A few tensors of it: 3,300 a file, 10,200 in all.
    for (int i = 0; i < 3300; ++i) {
      const size_t count = 1 + random() % 4;
      const size_t first = random() % (header.tensors.size() - count);
      std::string text = small_header(header, first, count);
      const uint64_t data_bytes = header.tensors[first + count - 1].end - header.tensors[first].begin;
      if (i % 50 != 0) mutate(text, random);
      const std::string content = length_prefix(text.size()) + text;
      check(content, content.size() + data_bytes - (i % 10 == 1 ? random() % std::min<uint64_t>(data_bytes, 9) : 0));
    }
  }
  EXPECT_GT(accepted, 200);
  EXPECT_GT(refused, 8000);
  RecordProperty("accepted", accepted);
}

TEST(Shape, PrintsAndCompares) {
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(to_string(Shape{24, 1024}), "[24, 1024]");
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ((Shape{3, 0, 5}).elements(), 0);
  EXPECT_FALSE((Shape{2}) == (Shape{2, 1}));
}

}  // namespace
}  // namespace deepinfer
