// The layers of docs/architecture.md, enforced: who may include whom, and names that say what is inside.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = DEEPINFER_SOURCE_DIR;

// A folder of src/ and the folders it may include, itself apart.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"base", {}},
    {"tensor", {"base"}},
    {"ops", {"tensor", "base"}},
    {"backends", {"ops", "tensor", "base"}},
    {"models", {"ops", "tensor", "base"}},
    {"text", {"base"}},
    {"grammar", {"base"}},
    {"scheduling", {"base"}},
    {"engine", {"models", "text", "grammar", "scheduling", "ops", "tensor", "base"}},
    {"serving", {"engine", "text", "grammar", "scheduling", "base"}},
};

struct Include {
  fs::path file;
  int line;
  std::string path;
};

bool is_source(const fs::path& path) {
  const std::string extension = path.extension();
  return extension == ".h" || extension == ".cpp" || extension == ".inc" || extension == ".cu" || extension == ".cuh";
}

std::vector<fs::path> sources_below(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && is_source(entry.path())) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Include> project_includes(const fs::path& file) {
  static const std::regex kPattern(R"re(^\s*#\s*include\s*"([^"]+)")re");
  std::vector<Include> found;
  std::ifstream in(file);
  std::string text;
  for (int line = 1; std::getline(in, text); ++line) {
    std::smatch match;
    if (std::regex_search(text, match, kPattern)) found.push_back({file, line, match[1]});
  }
  return found;
}

std::string first_folder(const std::string& path) {
  return path.substr(0, path.find('/'));
}

TEST(IncludeArrows, EveryFolderIsKnown) {
  for (const auto& entry : fs::directory_iterator(kRoot / "src")) {
    if (!entry.is_directory()) continue;
    EXPECT_TRUE(kMayInclude.contains(entry.path().filename()))
        << "src/" << entry.path().filename().string() << " has no rule here and in docs/architecture.md";
  }
}

TEST(IncludeArrows, PointDownwardsOnly) {
  for (const auto& [folder, allowed] : kMayInclude)
    for (const fs::path& file : sources_below(kRoot / "src" / folder))
      for (const Include& include : project_includes(file)) {
        ASSERT_NE(include.path.find('/'), std::string::npos)
            << file << ":" << include.line << ": include \"" << include.path << "\" by its path from src/";
        const std::string target = first_folder(include.path);
        EXPECT_TRUE(target == folder || allowed.contains(target))
            << file.string() << ":" << include.line << ": " << folder << " may not include " << include.path;
      }
}

TEST(IncludeArrows, IncludedFilesExist) {
  for (const fs::path& file : sources_below(kRoot / "src"))
    for (const Include& include : project_includes(file))
      EXPECT_TRUE(fs::exists(kRoot / "src" / include.path))
          << file.string() << ":" << include.line << ": no such file: src/" << include.path;
}

// An executable chooses the backends; a library never does.
TEST(IncludeArrows, OnlyExecutablesNameABackend) {
  for (const auto& [folder, allowed] : kMayInclude) {
    if (folder == "backends") continue;
    for (const fs::path& file : sources_below(kRoot / "src" / folder))
      for (const Include& include : project_includes(file))
        EXPECT_NE(first_folder(include.path), "backends") << file.string() << ":" << include.line;
  }
}

// Sockets stay in one folder, behind http_server.h and http_exchange.h, which show none.
TEST(IncludeArrows, OnlyTheTransportIncludesBoost) {
  static const std::regex kBoost(R"re(^\s*#\s*include\s*[<"]boost/)re");
  const fs::path transport = kRoot / "src" / "serving" / "http";
  for (const char* folder : {"src", "apps", "bindings", "bench"})
    for (const fs::path& file : sources_below(kRoot / folder)) {
      const bool is_public = file.filename() == "http_server.h" || file.filename() == "http_exchange.h";
      if (file.parent_path() == transport && !is_public) continue;
      std::ifstream in(file);
      std::string text;
      for (int line = 1; std::getline(in, text); ++line)
        EXPECT_FALSE(std::regex_search(text, kBoost)) << file.string() << ":" << line;
    }
}

TEST(Names, SayWhatIsInside) {
  static const std::regex kVague(R"((^|_)(utils?|helpers?|misc|common|manager|impl|v2|stuff)(_|$))");
  for (const char* folder : {"src", "apps", "tests", "bench"})
    for (const fs::path& file : sources_below(kRoot / folder))
      EXPECT_FALSE(std::regex_search(file.stem().string(), kVague)) << file << " is named after nothing";
}

}  // namespace
