#include "model_location.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/bounded_file.h"

namespace deepinfer::cli {
namespace fs = std::filesystem;
namespace {

bool is_model_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "config.json", ignored);
}

bool is_repository_id(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == name.size() ||
      name.find('/', slash + 1) != std::string::npos)
    return false;
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.' || c == '/';
  };
  return std::all_of(name.begin(), name.end(), allowed) && name[0] != '.' && name[slash + 1] != '.';
}

// The snapshot that refs/main names in a hub cache; the only one when there is no such reference.
std::optional<fs::path> snapshot(const fs::path& cache, const std::string& id) {
  std::string folder_name = "models--" + id;
  folder_name.replace(folder_name.find('/'), 1, "--");
  const fs::path repository = cache / folder_name;
  std::string revision;
  if (const auto reference = read_bounded_file(repository / "refs" / "main", 4096); reference.ok())
    revision = reference->substr(0, reference->find_first_of(" \t\r\n"));
  if (!revision.empty() && revision.find('/') == std::string::npos) {
    const fs::path folder = repository / "snapshots" / revision;
    if (is_model_folder(folder)) return folder;
  }
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(repository / "snapshots", error), end; !error && entry != end;
       entry.increment(error))
    if (is_model_folder(entry->path())) found.push_back(entry->path());
  if (found.size() == 1) return found.front();
  return std::nullopt;
}

Result<fs::path> locate_repository(const std::string& id, const ModelSearch& search) {
  std::vector<fs::path> caches;
  std::vector<std::string> looked;
  if (const auto own = search.environment("DEEPINFER_HF_MODEL_DIR")) {
    const fs::path root = *own;
    const std::string name = id.substr(id.find('/') + 1);
    for (const fs::path& folder : {root / id, root / name})
      if (is_model_folder(folder)) return folder;
    const fs::path itself = root.has_filename() ? root : root.parent_path();
    if (itself.filename() == name && is_model_folder(itself)) return itself;
    caches.push_back(root);
  }
  if (const auto hub = search.environment("HF_HUB_CACHE")) caches.push_back(*hub);
  if (const auto home = search.environment("HF_HOME")) {
    caches.push_back(fs::path(*home) / "hub");
  } else if (const auto user = search.environment("HOME")) {
    caches.push_back(fs::path(*user) / ".cache" / "huggingface" / "hub");
  }
  for (const fs::path& cache : caches) {
    if (const auto folder = snapshot(cache, id)) return *folder;
    looked.push_back(cache.string());
  }
  return not_found(fmt::format("model {} is not on this machine (looked in {}); download it with: hf download {}", id,
                               fmt::join(looked, ", "), id));
}

}  // namespace

ModelSearch ModelSearch::of_this_process() {
  ModelSearch search;
  std::error_code ignored;
  search.executable_folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  search.environment = [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::string(value);
  };
  return search;
}

Result<fs::path> locate_model(const std::string& name, const ModelSearch& search) {
  std::error_code error;
  const fs::file_status status = fs::status(name, error);
  if (fs::is_directory(status)) {
    if (is_model_folder(name)) return fs::path(name);
    return not_found(fmt::format("{} is not a model folder: it has no config.json", name));
  }
  if (fs::exists(status))
    return invalid_argument(fmt::format("{} is a file: -m takes the model's folder or a repository id", name));
  if (is_repository_id(name)) return locate_repository(name, search);
  return not_found(
      fmt::format("no model folder {} (and it is no repository id such as deepseek-ai/DeepSeek-V4.1-Flash either)",
                  name.empty() ? "``" : name));
}

Result<fs::path> locate_default_model(const ModelSearch& search) {
  if (const auto name = search.environment("DEEPINFER_MODEL")) {
    Result<fs::path> folder = locate_model(*name, search);
    if (!folder.ok()) return folder.status().with_context("DEEPINFER_MODEL");
    return folder;
  }
  const fs::path& program = search.executable_folder;
  for (const fs::path& folder : {program / kDefaultModelName, program / "models" / kDefaultModelName,
                                 (program / ".." / "share" / "deepinfer" / kDefaultModelName).lexically_normal()})
    if (is_model_folder(folder)) return folder;
  return not_found(fmt::format(
      "no model given and {} is neither beside the program nor in {}; give one with -m MODEL or set DEEPINFER_MODEL",
      kDefaultModelName, (program / ".." / "share" / "deepinfer").lexically_normal().string()));
}

Result<fs::path> locate_model(const std::optional<std::string>& name) {
  const ModelSearch search = ModelSearch::of_this_process();
  return name ? locate_model(*name, search) : locate_default_model(search);
}

}  // namespace deepinfer::cli
