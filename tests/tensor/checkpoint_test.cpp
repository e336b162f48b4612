// A model folder as a whole: index against shards, missing and surplus tensors, links, the demonstration model.
#include "tensor/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "safetensors_file.h"
#include "temporary_folder.h"
#include "tensor/checkpoint_index.h"

namespace deepinfer {
namespace {

constexpr char kIndex[] = "model.safetensors.index.json";

// A shard whose tensors have one byte each.
std::string shard(const std::vector<std::string>& names) {
  std::string header = "{";
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) header += ",";
    header += "\"" + names[i] + "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" + std::to_string(i) + "," +
              std::to_string(i + 1) + "]}";
  }
  return safetensors_file(header + "}", names.size());
}

void expect_refused(const TemporaryFolder& folder, StatusCode code, const std::vector<std::string>& parts) {
  const Result<Checkpoint> opened = Checkpoint::open(folder.path());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), code) << opened.status().message();
  for (const std::string& part : parts) {
    EXPECT_NE(opened.status().message().find(part), std::string::npos)
        << "no " << part << " in: " << opened.status().message();
  }
}

TEST(Checkpoint, OpensTheDemonstrationModel) {
  const Result<Checkpoint> opened = Checkpoint::open(DEEPINFER_TEST_MODEL);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->size(), 616 + 461 + 247);
  EXPECT_EQ(opened->bytes(), 36310368u);  // metadata.total_size of its index
  EXPECT_EQ(opened->shards().size(), 3u);
  uint64_t bytes = 0;
  for (int64_t i = 0; i < opened->size(); ++i) {
    const TensorView view = opened->view(i);
    bytes += view.bytes();
    const std::optional<TensorView> found = opened->find(opened->info(i).name);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->data, view.data);
  }
  EXPECT_EQ(bytes, opened->bytes());
  const Result<TensorView> sink = opened->require("layers.0.attn.attn_sink", DType::kF32, Shape{4});
  ASSERT_TRUE(sink.ok()) << sink.status().message();
  EXPECT_NE(sink->as<float>(), nullptr);
  EXPECT_FALSE(opened->find("layers.0.attn.attn_sin").has_value());
}

TEST(Checkpoint, RequireNamesWhatIsWrong) {
  const TemporaryFolder folder;
  // 4 data bytes after a header of odd length: "f" cannot be read as float where it lies.
  const std::string header = R"({"f":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  folder.write("model.safetensors", safetensors_file(header + std::string(header.size() % 2 == 0 ? 1 : 2, ' '), 4));
  const Result<Checkpoint> opened = Checkpoint::open(folder.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const auto message = [&](const char* name, DType dtype, const Shape& shape) {
    return opened->require(name, dtype, shape).status().message();
  };
  EXPECT_EQ(message("g", DType::kF32, {1}), folder.path() + ": tensor \"g\" is missing");
  EXPECT_EQ(message("f", DType::kBF16, {1}), folder / "model.safetensors" + ": tensor \"f\": dtype F32, expected BF16");
  EXPECT_EQ(message("f", DType::kF32, {1, 1}),
            folder / "model.safetensors" + ": tensor \"f\": shape [1], expected [1, 1]");
  const Result<TensorView> unaligned = opened->require("f", DType::kF32, {1});
  EXPECT_EQ(unaligned.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(unaligned.status().message().find("not a multiple of its 4-byte"), std::string::npos);
}

TEST(Checkpoint, SingleFileAndIndex) {
  const TemporaryFolder folder;
  expect_refused(folder, StatusCode::kNotFound, {"neither", kIndex, "model.safetensors"});
  folder.write("model.safetensors", shard({"a", "b"}));
  ASSERT_TRUE(Checkpoint::open(folder.path()).ok());
  folder.write(kIndex, R"({"weight_map":{"a":"model.safetensors","b":"model.safetensors"}})");
  ASSERT_TRUE(Checkpoint::open(folder.path()).ok());  // the index names the single file
  folder.write("x.safetensors", shard({"a"}));
  folder.write(kIndex, R"({"weight_map":{"a":"x.safetensors"}})");
  expect_refused(folder, StatusCode::kCorruptFile, {"both", kIndex});
  EXPECT_EQ(Checkpoint::open(folder / "none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Checkpoint::open(folder / "x.safetensors").status().code(), StatusCode::kNotFound);
}

TEST(Checkpoint, IndexAgainstShards) {
  const TemporaryFolder folder;
  folder.write("1.safetensors", shard({"a", "b"}));
  folder.write("2.safetensors", shard({"c"}));
  const std::string good = R"({"weight_map":{"c":"2.safetensors","a":"1.safetensors","b":"1.safetensors"}})";
  folder.write(kIndex, good);
  const Result<Checkpoint> opened = Checkpoint::open(folder.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->info(0).name, "a");  // shard after shard, whatever the order of the index
  EXPECT_EQ(opened->info(2).name, "c");
  EXPECT_EQ(opened->index_of("c"), 2);

  // A tensor that no shard has; one in another shard than said; one that the index lacks; one listed twice.
  folder.write(kIndex,
               R"({"weight_map":{"c":"2.safetensors","a":"1.safetensors","b":"1.safetensors","d":"2.safetensors"}})");
  expect_refused(folder, StatusCode::kCorruptFile, {"1 tensors are not in the file", "d in 2.safetensors"});
  folder.write(kIndex, R"({"weight_map":{"c":"1.safetensors","a":"1.safetensors","b":"2.safetensors"}})");
  expect_refused(folder, StatusCode::kCorruptFile, {"2 tensors", "c in 1.safetensors", "b in 2.safetensors"});
  folder.write(kIndex, R"({"weight_map":{"c":"2.safetensors","a":"1.safetensors"}})");
  expect_refused(folder, StatusCode::kCorruptFile, {"lacks 1 tensors", "\"b\""});
  folder.write(kIndex,
               R"({"weight_map":{"c":"2.safetensors","a":"1.safetensors","b":"1.safetensors","a":"1.safetensors"}})");
  expect_refused(folder, StatusCode::kCorruptFile, {"duplicate key \"a\""});

  folder.write("2.safetensors", shard({"c", "a"}));
  folder.write(kIndex, good);
  expect_refused(folder, StatusCode::kCorruptFile, {"2.safetensors: tensor \"a\" is also in", "1.safetensors"});
  folder.write("2.safetensors", shard({"c"}).substr(0, 20));
  expect_refused(folder, StatusCode::kCorruptFile, {folder / "2.safetensors: header"});
}

TEST(Checkpoint, ListsMissingShards) {
  const TemporaryFolder folder;
  std::string map;
  for (int i = 10; i < 30; ++i)
    map += (map.empty() ? "\"" : ",\"") + std::to_string(i) + "\":\"" + std::to_string(i) + ".safetensors\"";
  folder.write(kIndex, "{\"weight_map\":{" + map + "}}");
  folder.write("12.safetensors", shard({"12"}));
  expect_refused(
      folder, StatusCode::kNotFound,
      {"19 of the 20 weight files", "\"10.safetensors\", \"11.safetensors\", \"13.safetensors\"", "and 11 more"});
}

// A Hugging Face cache keeps the files under other names and links to them.
TEST(Checkpoint, FollowsSymbolicLinks) {
  const TemporaryFolder blobs;
  const TemporaryFolder folder;
  blobs.write("5c3f", shard({"a"}));
  std::filesystem::create_symlink(blobs / "5c3f", folder / "1.safetensors");
  folder.write(kIndex, R"({"weight_map":{"a":"1.safetensors"}})");
  EXPECT_TRUE(Checkpoint::open(folder.path()).ok());
  std::filesystem::remove(blobs / "5c3f");
  expect_refused(folder, StatusCode::kNotFound, {"1 of the 1 weight files", "1.safetensors"});
  std::filesystem::remove(folder / "1.safetensors");
  std::filesystem::create_symlink(folder / "1.safetensors", folder / "1.safetensors");  // a loop
  expect_refused(folder, StatusCode::kNotFound, {"1.safetensors"});
  std::filesystem::remove(folder / "1.safetensors");
  std::filesystem::create_directory_symlink(blobs.path(), folder / "1.safetensors");
  expect_refused(folder, StatusCode::kInvalidArgument, {"1.safetensors", "not a regular file"});
}

TEST(CheckpointIndex, ShardNamesArePlain) {
  for (const char* name :
       {"/etc/x.safetensors", "../x.safetensors", "a/x.safetensors", "..", ".", "", ".safetensors", ".x.safetensors",
        "x.bin", "x.safetensors/", "a\\\\x.safetensors", "x\\u0000.safetensors", "x.safetensors\\n", "\\u0000"}) {
    const std::string text = std::string(R"({"weight_map":{"t":")") + name + "\"}}";
    const Result<CheckpointIndex> index = parse_checkpoint_index(as_bytes(text));
    ASSERT_FALSE(index.ok()) << name;
    EXPECT_NE(index.status().message().find("\"t\""), std::string::npos) << index.status().message();
    EXPECT_NE(index.status().message().find("plain file name"), std::string::npos) << index.status().message();
  }
}

TEST(CheckpointIndex, StructureIsChecked) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "empty"},
      {"[]", "must be an object, not an array"},
      {"{}", "no weight_map"},
      {R"({"weight_map":[]})", "weight_map must be an object, not an array"},
      {R"({"weight_map":{}})", "names no tensor"},
      {R"({"weight_map":{"a":1}})", "\"a\" must be a string, not an integer"},
      {R"({"weight_map":{"a":null}})", "\"a\" must be a string, not null"},
      {R"({"weight_map":{"a":"x.safetensors"},"weight_map":{"a":"x.safetensors"}})", "duplicate key \"weight_map\""},
      {R"({"weight_map":{"a":"x.safetensors"})", "JSON"},
      {"{\"weight_map\":{\"\xFF\":\"x.safetensors\"}}", "not UTF-8 (byte 16)"},
  };
  for (const auto& [text, part] : cases) {
    const Result<CheckpointIndex> index = parse_checkpoint_index(as_bytes(text));
    ASSERT_FALSE(index.ok()) << text;
    EXPECT_EQ(index.status().code(), StatusCode::kCorruptFile);
    EXPECT_NE(index.status().message().find(part), std::string::npos) << index.status().message();
  }
  std::string many = R"({"weight_map":{)";
  for (int i = 0; i <= kMaxMappedFiles; ++i) {
    many += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":\"" + std::to_string(i) + ".safetensors\"";
  }
  const Result<CheckpointIndex> index = parse_checkpoint_index(as_bytes(many + "}}"));
  EXPECT_NE(index.status().message().find("more than 4096 files"), std::string::npos) << index.status().message();
}

TEST(CheckpointIndex, OtherKeysAreAllowed) {
  const std::string text =
      R"({"metadata":{"total_size":1.5e3,"x":[null]},"weight_map":{"b":"y.safetensors","a":"x.safetensors"}})";
  const Result<CheckpointIndex> index = parse_checkpoint_index(as_bytes(text));
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ(index->shards, (std::vector<std::string>{"x.safetensors", "y.safetensors"}));
  EXPECT_EQ(index->entries[0].name, "b");
  EXPECT_EQ(index->entries[0].shard, 1u);
}

}  // namespace
}  // namespace deepinfer
