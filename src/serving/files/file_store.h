// FileStore: the files that clients uploaded and those that batches made, in a folder of one server.  Each belongs to
// one owner, and nobody else sees it.  Thread-safe.
//
//   FOLDER/files/ID        the bytes          FOLDER/files/ID.json   what is known of them
//   FOLDER/batches/        of the batches (batch_service.h)
//
// A file is there when its .json is; what a server left unfinished goes at the next start.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace deepinfer::serving {

struct StoredFile {
  std::string id;
  std::string owner;
  std::string filename;  // what the client calls it
  std::string purpose;   // "batch", "batch_output"
  int64_t bytes = 0;
  int64_t created = 0;  // seconds since 1970
};

struct FileStoreLimits {
  int64_t bytes = int64_t{8} << 30;  // of one owner's files; only uploads are refused beyond it
  int64_t files = 2000;              // of one owner, likewise
};

class FileStore {
 public:
  // The folder is made where it is missing, for this user only.  kIoError naming it; kInvalidArgument: another server
  // uses it.
  static Result<std::unique_ptr<FileStore>> open(const std::filesystem::path& folder, const FileStoreLimits& limits);
  // In a folder of its own, which goes with it.
  static Result<std::unique_ptr<FileStore>> open_temporary(const FileStoreLimits& limits);
  ~FileStore();
  FileStore(const FileStore&) = delete;
  FileStore& operator=(const FileStore&) = delete;

  // Keeps `content` under about.id.  kResourceExhausted: the owner has as much as it may have.
  Result<StoredFile> add(StoredFile about, std::string_view content);
  // Takes a whole file of the same file system; one of the same id is replaced.  No limits.
  Result<StoredFile> adopt(StoredFile about, const std::filesystem::path& file);
  // False: the owner has no such file.
  Result<bool> remove(const std::string& owner, const std::string& id);

  std::optional<StoredFile> find(const std::string& owner, const std::string& id) const;
  // The oldest first.
  std::vector<StoredFile> list(const std::string& owner) const;

  std::filesystem::path content(const std::string& id) const { return folder_ / "files" / id; }
  std::filesystem::path batches() const { return folder_ / "batches"; }

 private:
  FileStore(std::filesystem::path folder, const FileStoreLimits& limits, bool temporary);
  Status start();
  Status load();
  std::filesystem::path about(const std::string& id) const { return folder_ / "files" / (id + ".json"); }
  Status check_room(const std::string& owner, int64_t bytes) const;  // with mutex_ held
  Result<StoredFile> publish(StoredFile file);                       // its bytes are there

  const std::filesystem::path folder_;
  const FileStoreLimits limits_;
  const bool temporary_;
  int lock_ = -1;
  mutable std::mutex mutex_;
  std::map<std::string, StoredFile> files_;     // by id
  std::map<std::string, int64_t> being_added_;  // bytes, by owner
};

}  // namespace deepinfer::serving
