#include "serving/files/file_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

#include "base/bounded_file.h"
#include "serving/batch/durable_file.h"
#include "text/json_text.h"

namespace deepinfer::serving {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostAboutBytes = 64 << 10;
constexpr std::string_view kAbout = ".json";

Status failed(const fs::path& path, const char* what) {
  return io_error(fmt::format("{}: {}: {}", path.string(), what, std::generic_category().message(errno)));
}

Status make_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return failed(folder, "cannot be made");
}

std::string about_text(const StoredFile& file) {
  Json out = Json::object();
  out["id"] = file.id;
  out["owner"] = file.owner;
  out["filename"] = file.filename;
  out["purpose"] = file.purpose;
  out["bytes"] = file.bytes;
  out["created_at"] = file.created;
  return dump_compact(out);
}

std::optional<StoredFile> read_about(const fs::path& path) {
  const Result<std::string> text = read_bounded_file(path, kMostAboutBytes);
  if (!text.ok()) return std::nullopt;
  const Result<Json> json = parse_json(*text);
  if (!json.ok() || !json->is_object()) return std::nullopt;
  const auto string = [&](const char* name) {
    const auto found = json->find(name);
    return found != json->end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto number = [&](const char* name) {
    const auto found = json->find(name);
    return found != json->end() && found->is_number_integer() ? found->get<int64_t>() : -1;
  };
  StoredFile file{string("id"),      string("owner"), string("filename"),
                  string("purpose"), number("bytes"), number("created_at")};
  if (file.id + std::string(kAbout) != path.filename().string() || file.owner.empty() || file.bytes < 0)
    return std::nullopt;
  return file;
}

bool is_ours(const std::string& name) {
  return name.starts_with("file-");
}

}  // namespace

FileStore::FileStore(fs::path folder, const FileStoreLimits& limits, bool temporary)
    : folder_(std::move(folder)), limits_(limits), temporary_(temporary) {}

FileStore::~FileStore() {
  if (temporary_) {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  if (lock_ >= 0) ::close(lock_);
}

Result<std::unique_ptr<FileStore>> FileStore::open(const fs::path& folder, const FileStoreLimits& limits) {
  std::unique_ptr<FileStore> store(new FileStore(folder, limits, false));
  DI_RETURN_IF_ERROR(store->start());
  return store;
}

Result<std::unique_ptr<FileStore>> FileStore::open_temporary(const FileStoreLimits& limits) {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  std::string name = (error ? fs::path("/tmp") : parent) / "deepinfer-files-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) return failed(name, "cannot be made");
  std::unique_ptr<FileStore> store(new FileStore(name, limits, true));
  DI_RETURN_IF_ERROR(store->start());
  return store;
}

Status FileStore::start() {
  DI_RETURN_IF_ERROR(make_folder(folder_));
  const fs::path lock = folder_ / "lock";
  lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0) return failed(lock, "cannot be opened for writing");
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0)
    return invalid_argument(fmt::format("{}: another server keeps its files there", folder_.string()));
  DI_RETURN_IF_ERROR(make_folder(folder_ / "files"));
  DI_RETURN_IF_ERROR(make_folder(batches()));
  return load();
}

Status FileStore::load() {
  std::error_code error;
  std::set<std::string> names;
  for (fs::directory_iterator at(folder_ / "files", error), end; !error && at != end; at.increment(error))
    if (is_ours(at->path().filename().string())) names.insert(at->path().filename().string());
  if (error) return io_error(fmt::format("{}: cannot be read: {}", folder_.string(), error.message()));
  for (const std::string& name : names) {
    if (!name.ends_with(kAbout)) continue;
    const std::optional<StoredFile> file = read_about(folder_ / "files" / name);
    struct stat about {};
    if (!file || ::stat(content(file->id).c_str(), &about) != 0 || about.st_size != file->bytes) continue;
    files_.emplace(file->id, *file);
  }
  for (const std::string& name : names) {
    const std::string id = name.substr(0, name.find('.'));
    const bool kept = files_.contains(id) && !name.ends_with(kUnfinished);
    if (!kept) fs::remove(folder_ / "files" / name, error);
  }
  return {};
}

Status FileStore::check_room(const std::string& owner, int64_t bytes) const {
  int64_t files = 0, sum = bytes;
  for (const auto& [id, file] : files_) {
    if (file.owner != owner) continue;
    ++files;
    sum += file.bytes;
  }
  if (const auto adding = being_added_.find(owner); adding != being_added_.end()) sum += adding->second;
  if (files >= limits_.files)
    return {StatusCode::kResourceExhausted,
            fmt::format("There are {} files already, as many as there may be. Delete some.", files)};
  if (sum > limits_.bytes)
    return {StatusCode::kResourceExhausted,
            fmt::format("All files together would have {} bytes; they may have {}. Delete some.", sum, limits_.bytes)};
  return {};
}

Result<StoredFile> FileStore::add(StoredFile file, std::string_view bytes) {
  file.bytes = static_cast<int64_t>(bytes.size());
  {
    const std::lock_guard lock(mutex_);
    DI_RETURN_IF_ERROR(check_room(file.owner, file.bytes));
    being_added_[file.owner] += file.bytes;
  }
  Status status = write_durably(content(file.id), bytes);
  const std::string owner = file.owner;
  const int64_t size = file.bytes;
  Result<StoredFile> added = status.ok() ? publish(std::move(file)) : Result<StoredFile>(status);
  const std::lock_guard lock(mutex_);
  if ((being_added_[owner] -= size) == 0) being_added_.erase(owner);
  return added;
}

Result<StoredFile> FileStore::adopt(StoredFile file, const fs::path& path) {
  std::error_code error;
  file.bytes = static_cast<int64_t>(fs::file_size(path, error));
  if (!error) fs::rename(path, content(file.id), error);
  if (error) return io_error(fmt::format("{}: cannot be moved: {}", path.string(), error.message()));
  return publish(std::move(file));
}

Result<StoredFile> FileStore::publish(StoredFile file) {
  DI_RETURN_IF_ERROR(write_durably(about(file.id), about_text(file)));
  const std::lock_guard lock(mutex_);
  return files_[file.id] = std::move(file);
}

Result<bool> FileStore::remove(const std::string& owner, const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(id);
    if (found == files_.end() || found->second.owner != owner) return false;
    files_.erase(found);
  }
  // What is left after an error is no file any more without its .json.
  std::error_code error;
  fs::remove(about(id), error);
  if (!error) fs::remove(content(id), error);
  if (error) return io_error(fmt::format("{}: cannot be removed: {}", content(id).string(), error.message()));
  return true;
}

std::optional<StoredFile> FileStore::find(const std::string& owner, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(id);
  if (found == files_.end() || found->second.owner != owner) return std::nullopt;
  return found->second;
}

std::vector<StoredFile> FileStore::list(const std::string& owner) const {
  std::vector<StoredFile> list;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, file] : files_)
      if (file.owner == owner) list.push_back(file);
  }
  std::sort(list.begin(), list.end(), [](const StoredFile& a, const StoredFile& b) {
    return std::pair(a.created, std::string_view(a.id)) < std::pair(b.created, std::string_view(b.id));
  });
  return list;
}

}  // namespace deepinfer::serving
