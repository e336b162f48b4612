#include "serving/batch/batch_results.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "serving/batch/durable_file.h"
#include "serving/batch/result_line.h"

namespace deepinfer::serving {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

}  // namespace

Result<std::unique_ptr<BatchResults>> BatchResults::open(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  std::unique_ptr<BatchResults> results(new BatchResults(path.string(), descriptor));
  if (descriptor < 0) return results->system_error("cannot be opened for writing");
  struct stat about {};
  if (::fstat(descriptor, &about) != 0) return results->system_error("cannot be examined");
  if (!S_ISREG(about.st_mode))
    return invalid_argument(fmt::format("{}: is no regular file; a job that can be resumed needs one", path.string()));
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0)
    return io_error(fmt::format("{}: another job is writing these results", path.string()));
  // A file system that cannot say so keeps the name all the same.
  const std::filesystem::path parent = path.parent_path();
  (void)sync_folder(parent.empty() ? "." : parent);
  return results;
}

BatchResults::~BatchResults() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status BatchResults::system_error(const char* what) const {
  return io_error(fmt::format("{}: {}: {}", name_, what, std::generic_category().message(errno)));
}

Result<std::optional<std::string>> BatchResults::next_head() {
  const size_t wanted = result_head(std::string(kKeyDigits, '0')).size();
  std::string head;
  int64_t length = 0;
  for (;;) {
    if (at_ == buffer_.size()) {
      buffer_.resize(kPieceBytes);
      const ssize_t got = ::pread(descriptor_, buffer_.data(), buffer_.size(), read_bytes_);
      buffer_.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
      at_ = 0;
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return system_error("cannot be read");
      if (got == 0) break;
      read_bytes_ += got;
    }
    const std::string_view rest = std::string_view(buffer_).substr(at_);
    const size_t found = rest.find('\n');
    const std::string_view piece = rest.substr(0, found);
    head += piece.substr(0, std::min(piece.size(), wanted - head.size()));
    length += static_cast<int64_t>(piece.size());
    at_ += piece.size();
    if (found == std::string_view::npos) continue;
    ++at_;
    end_ += length + 1;
    return std::optional<std::string>(std::move(head));
  }
  torn_ = std::move(head);
  return std::optional<std::string>();
}

Status BatchResults::cut_torn_line(std::string_view head) {
  // Where the machine lost power a file's end may be zeros that were never written.
  const size_t compared = std::min(torn_.size(), head.size());
  bool ours = torn_.empty() || !head.empty();
  for (size_t i = 0; i < compared; ++i) ours = ours && (torn_[i] == head[i] || torn_[i] == '\0');
  if (!ours)
    return invalid_argument(fmt::format(
        "{}: the bytes after its last whole line are no result of this input: is it another job's file, or has the "
        "input changed?",
        name_));
  if (::ftruncate(descriptor_, end_) != 0) return system_error("cannot be cut behind its last whole line");
  if (::lseek(descriptor_, end_, SEEK_SET) < 0) return system_error("cannot be positioned");
  buffer_ = {};
  return {};
}

Status BatchResults::append(std::string_view lines) {
  dirty_ = true;
  std::string_view rest = lines;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<size_t>(written));
      continue;
    }
    if (errno == EINTR) continue;
    const Status status = system_error("cannot write");
    // Whole lines stay; the rest is cut off here, or at the next start should this fail too.
    const size_t done = lines.size() - rest.size();
    const size_t whole = done == 0 ? 0 : lines.rfind('\n', done - 1) + 1;  // npos + 1 is 0
    end_ += static_cast<int64_t>(whole);
    if (::ftruncate(descriptor_, end_) != 0) return status.with_context("and the torn line could not be cut off");
    return status;
  }
  end_ += static_cast<int64_t>(lines.size());
  return {};
}

Status BatchResults::sync() {
  if (!std::exchange(dirty_, false)) return {};
  if (::fdatasync(descriptor_) != 0) return system_error("cannot be brought to the disk");
  return {};
}

}  // namespace deepinfer::serving
