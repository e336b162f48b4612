#include "serving/batch/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace deepinfer::serving {
namespace {

Status failed(const std::filesystem::path& path, const char* what) {
  return io_error(fmt::format("{}: {}: {}", path.string(), what, std::generic_category().message(errno)));
}

Status write_all(int descriptor, const std::filesystem::path& path, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed(path, "cannot write");
    content.remove_prefix(static_cast<size_t>(written));
  }
  return ::fsync(descriptor) == 0 ? Status() : failed(path, "cannot be brought to the disk");
}

}  // namespace

Status write_durably(const std::filesystem::path& file, std::string_view content) {
  const std::filesystem::path fresh = file.string() + std::string(kUnfinished);
  const int descriptor = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return failed(fresh, "cannot be opened for writing");
  Status status = write_all(descriptor, fresh, content);
  ::close(descriptor);
  if (status.ok() && ::rename(fresh.c_str(), file.c_str()) != 0) status = failed(file, "cannot be replaced");
  if (!status.ok()) {
    ::unlink(fresh.c_str());
    return status;
  }
  return sync_folder(file.parent_path());
}

Status sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return failed(folder, "cannot be opened");
  const bool done = ::fsync(descriptor) == 0;
  const Status status = done ? Status() : failed(folder, "cannot be brought to the disk");
  ::close(descriptor);
  return status;
}

}  // namespace deepinfer::serving
