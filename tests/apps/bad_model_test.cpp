// Model folders that are wrong: one clear message that names file, tensor or field, exit code 3, nothing on standard
// output.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "program.h"
#include "temporary_folder.h"

namespace deepinfer::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kShard = "model-00001-of-00003.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// The demonstration model with single files replaced; the others are links to it.
class BadModel : public testing::Test {
 protected:
  BadModel() {
    for (const auto& entry : fs::directory_iterator(DEEPINFER_TEST_MODEL))
      fs::create_symlink(entry.path(), folder_ / entry.path().filename());
  }
  void replace(const std::string& name, std::string_view text) {
    fs::remove(folder_ / name);
    folder_.write(name, text);
  }
  // Replaces the first `from` of a file; it must be there.
  void edit(const std::string& name, const std::string& from, const std::string& to) {
    std::string text = read_file(folder_ / name);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " is not in " << name;
    text.replace(at, from.size(), to);
    replace(name, text);
  }
  // `run` fails with exactly one line that holds all parts.
  void expect_refused(const std::vector<std::string>& parts, int exit_code = 3) const {
    const ProgramResult result = deepinfer({"run", "hi", "-m", folder_.path().string()});
    EXPECT_EQ(result.exit_code, exit_code) << result.errors;
    EXPECT_EQ(result.signal, 0);
    EXPECT_EQ(result.output, "");
    EXPECT_TRUE(result.errors.starts_with("deepinfer: error: ")) << result.errors;
    EXPECT_EQ(result.errors.find('\n'), result.errors.size() - 1) << result.errors;
    for (const std::string& part : parts)
      EXPECT_NE(result.errors.find(part), std::string::npos) << part << " is not in: " << result.errors;
  }

  TemporaryFolder folder_;
};

TEST_F(BadModel, IsGoodBeforeItIsMadeBad) {
  EXPECT_EQ(deepinfer({"run", "hi", "--max-tokens", "1", "-m", folder_.path().string()}).exit_code, 0);
}

TEST_F(BadModel, UnknownModelType) {
  edit("config.json", "\"deepseek_v41\"", "\"llama\"");
  expect_refused({"config.json", "model_type", "llama", "deepseek_v41"}, 4);
}

TEST_F(BadModel, ConfigThatIsNoJson) {
  replace("config.json", "{\"architectures\": [");
  expect_refused({"config.json"});
}

TEST_F(BadModel, ConfigThatContradictsItsTensors) {
  edit("config.json", "\"moe_intermediate_size\": 128", "\"moe_intermediate_size\": 256");
  expect_refused({"experts", "256"});
}

TEST_F(BadModel, ConfigValueOutOfRange) {
  edit("config.json", "\"num_experts_per_tok\": 4", "\"num_experts_per_tok\": 400");
  expect_refused({"config.json", "num_experts_per_tok", "400"});
}

TEST_F(BadModel, MissingShard) {
  fs::remove(folder_ / kShard);
  expect_refused({kShard});
}

TEST_F(BadModel, TruncatedShard) {
  const std::string text = read_file(folder_ / kShard);
  replace(kShard, text.substr(0, text.size() - 1000));
  expect_refused({kShard});
}

TEST_F(BadModel, EmptyShard) {
  replace(kShard, "");
  expect_refused({kShard});
}

TEST_F(BadModel, WrongDtype) {
  edit(kShard, "\"F8_E4M3\"", "\"F8_E5M2\"");
  expect_refused({kShard, "F8_E5M2", "F8_E4M3"});
}

TEST_F(BadModel, WrongShape) {
  const std::string text = read_file(folder_ / kShard);
  ASSERT_NE(text.find("[4096,256]"), std::string::npos);
  edit(kShard, "[4096,256]", "[256,4096]");
  expect_refused({kShard, "[256, 4096]", "[4096, 256]"});
}

TEST_F(BadModel, RenamedTensor) {
  edit(kShard, "attn_sink", "attn_sank");
  expect_refused({"attn_sink"});
}

TEST_F(BadModel, IndexThatNamesAFileElsewhere) {
  edit(kIndex, kShard, "../../etc/passwd");
  expect_refused({kIndex, "../../etc/passwd"});
}

TEST_F(BadModel, BrokenTokenizer) {
  replace("tokenizer.json", "{}");
  expect_refused({"tokenizer.json"});
}

TEST_F(BadModel, BrokenGenerationConfig) {
  replace("generation_config.json", "{\"top_p\": 7}");
  expect_refused({"generation_config.json", "top_p", "7", "(0, 1]"});
}

TEST_F(BadModel, FoldersInThePlaceOfFiles) {
  for (const char* name : {"tokenizer.json", "engram_token_map.json", "generation_config.json", kIndex, kShard}) {
    fs::rename(folder_ / name, folder_ / "kept");
    fs::create_directory(folder_ / name);
    expect_refused({name, "not a regular file"});
    fs::remove(folder_ / name);
    fs::rename(folder_ / "kept", folder_ / name);
  }
}

TEST_F(BadModel, OversizedFiles) {
  for (const char* name :
       {"config.json", "tokenizer.json", "engram_token_map.json", "generation_config.json", kIndex}) {
    fs::rename(folder_ / name, folder_ / "kept");
    folder_.write(name, "");
    fs::resize_file(folder_ / name, uint64_t{1} << 40);  // sparse
    expect_refused({name, "has 1099511627776 bytes; allowed: at most"});
    fs::remove(folder_ / name);
    fs::rename(folder_ / "kept", folder_ / name);
  }
}

TEST_F(BadModel, HalfAModel) {
  for (const char* name : {"tokenizer.json", kIndex}) {
    fs::rename(folder_ / name, folder_ / "kept");
    expect_refused({folder_.path().string(), name});
    fs::rename(folder_ / "kept", folder_ / name);
  }
}

TEST_F(BadModel, InspectVerifyNamesWhatDiffers) {
  folder_.write("SHA256SUMS", std::string(64, '0') + "  config.json\n");
  const ProgramResult result = deepinfer({"inspect", "--verify", folder_.path().string()});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output, "");
  for (const char* part : {"SHA256SUMS", "config.json"})
    EXPECT_NE(result.errors.find(part), std::string::npos) << result.errors;
}

// The file is cut while the program answers from it: its own exit code and a message, never a raw signal.
TEST_F(BadModel, AFileThatShrinksWhileInUse) {
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    if (entry.path().extension() == ".safetensors") replace(entry.path().filename(), read_file(entry.path()));
  ProgramRun run{
      .arguments = {"run", "Hello!", "--ignore-end", "--max-tokens", "200000", "-m", folder_.path().string()}};
  bool cut = false;
  run.on_output = [&](const std::string& output) {
    if (cut || output.empty()) return 0;
    cut = true;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (entry.path().extension() == ".safetensors") {
        EXPECT_EQ(::truncate(entry.path().c_str(), 4096), 0);
      }
    }
    return 0;
  };
  const ProgramResult result = run_program(run);
  EXPECT_EQ(result.exit_code, 74) << result.errors;
  EXPECT_EQ(result.signal, 0);
  EXPECT_NE(result.errors.find(".safetensors"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace deepinfer::cli
