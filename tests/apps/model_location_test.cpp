#include "model_location.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "temporary_folder.h"

namespace deepinfer::cli {
namespace {

namespace fs = std::filesystem;

class ModelLocation : public testing::Test {
 protected:
  // Surroundings below the test's folder, with only these variables set.
  ModelSearch search(std::map<std::string, std::string> variables = {}) const {
    ModelSearch search;
    search.executable_folder = folder_ / "bin";
    search.environment = [variables](const char* name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      if (found == variables.end()) return std::nullopt;
      return found->second;
    };
    return search;
  }
  fs::path make_model(const std::string& name) const {
    return folder_.write(name + "/config.json", "{}").parent_path();
  }

  TemporaryFolder folder_;
};

constexpr const char* kId = "deepseek-ai/DeepSeek-V4.1-Flash";
constexpr const char* kCacheName = "models--deepseek-ai--DeepSeek-V4.1-Flash";

TEST_F(ModelLocation, TakesAFolder) {
  const fs::path model = make_model("some/model");
  EXPECT_EQ(*locate_model(model.string(), search()), model);
}

TEST_F(ModelLocation, SaysWhatIsWrongWithAPath) {
  folder_.write("empty/notes.txt", "");
  EXPECT_NE(locate_model((folder_ / "empty").string(), search()).status().message().find("it has no config.json"),
            std::string::npos);
  EXPECT_NE(locate_model((folder_ / "empty/notes.txt").string(), search()).status().message().find("is a file"),
            std::string::npos);
  EXPECT_NE(locate_model((folder_ / "a/b/c").string(), search()).status().message().find("no model folder"),
            std::string::npos);
  EXPECT_FALSE(locate_model("", search()).ok());
  EXPECT_FALSE(locate_model("../x", search()).ok());
}

TEST_F(ModelLocation, FollowsTheMainReferenceOfTheHubCache) {
  make_model("hf/hub/" + std::string(kCacheName) + "/snapshots/aaa");
  const fs::path main = make_model("hf/hub/" + std::string(kCacheName) + "/snapshots/bbb");
  folder_.write("hf/hub/" + std::string(kCacheName) + "/refs/main", "bbb");
  EXPECT_EQ(*locate_model(kId, search({{"HF_HOME", (folder_ / "hf").string()}})), main);
  EXPECT_EQ(*locate_model(kId, search({{"HF_HUB_CACHE", (folder_ / "hf/hub").string()}})), main);
  EXPECT_EQ(*locate_model(kId, search({{"DEEPINFER_HF_MODEL_DIR", (folder_ / "hf/hub").string()}})), main);
}

TEST_F(ModelLocation, LooksInTheHomeFolderUnlessHfHomeIsSet) {
  const fs::path model = make_model("home/.cache/huggingface/hub/" + std::string(kCacheName) + "/snapshots/only");
  const std::string home = (folder_ / "home").string();
  EXPECT_EQ(*locate_model(kId, search({{"HOME", home}})), model);
  EXPECT_FALSE(locate_model(kId, search({{"HOME", home}, {"HF_HOME", (folder_ / "elsewhere").string()}})).ok());
}

TEST_F(ModelLocation, TakesModelsOfTheOwnFolderFirst) {
  const fs::path by_id = make_model("models/deepseek-ai/DeepSeek-V4.1-Flash");
  const auto variables = std::map<std::string, std::string>{{"DEEPINFER_HF_MODEL_DIR", (folder_ / "models").string()}};
  EXPECT_EQ(*locate_model(kId, search(variables)), by_id);
  const fs::path by_name = make_model("named/DeepSeek-V4.1-Flash");
  EXPECT_EQ(*locate_model(kId, search({{"DEEPINFER_HF_MODEL_DIR", (folder_ / "named").string()}})), by_name);
  EXPECT_EQ(*locate_model(kId, search({{"DEEPINFER_HF_MODEL_DIR", by_name.string()}})), by_name);
  // A folder of another model never stands in.
  EXPECT_FALSE(locate_model("deepseek-ai/Other", search({{"DEEPINFER_HF_MODEL_DIR", by_name.string()}})).ok());
}

TEST_F(ModelLocation, ADownloadThatIsNotThereNamesTheCommand) {
  const Status status = locate_model(kId, search({{"HF_HOME", (folder_ / "hf").string()}})).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("hf download deepseek-ai/DeepSeek-V4.1-Flash"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find((folder_ / "hf/hub").string()), std::string::npos) << status.message();
}

TEST_F(ModelLocation, FindsTheDefaultModelNearTheProgram) {
  EXPECT_FALSE(locate_default_model(search()).ok());
  const fs::path installed = make_model("share/deepinfer/DeepSeek-V4.1-Tiny");
  EXPECT_EQ(*locate_default_model(search()), installed);
  const fs::path beside = make_model("bin/DeepSeek-V4.1-Tiny");
  EXPECT_EQ(*locate_default_model(search()), beside);
  const fs::path chosen = make_model("chosen");
  EXPECT_EQ(*locate_default_model(search({{"DEEPINFER_MODEL", chosen.string()}})), chosen);
  const Status status = locate_default_model(search({{"DEEPINFER_MODEL", (folder_ / "gone").string()}})).status();
  EXPECT_NE(status.message().find("DEEPINFER_MODEL"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace deepinfer::cli
