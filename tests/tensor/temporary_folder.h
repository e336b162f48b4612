// TemporaryFolder: a fresh folder that is removed with its content.  Used by tests that need real files.
#pragma once

#include <stdlib.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "base/check.h"

namespace deepinfer {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "deepinfer-test-XXXXXX").string()) {
    DI_CHECK(mkdtemp(path_.data()) != nullptr, "no temporary folder " + path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

  std::string write(std::string_view name, std::string_view content) const {
    const std::string path = *this / name;
    std::ofstream file(path, std::ios::binary);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    DI_CHECK(file.good(), "cannot write " + path);
    return path;
  }

 private:
  std::string path_;
};

}  // namespace deepinfer
