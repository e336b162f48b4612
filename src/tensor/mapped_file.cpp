#include "tensor/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "tensor/mapped_file_guard.h"

namespace deepinfer {
namespace {

std::string system_reason(int error) {
  return std::generic_category().message(error);
}

// The pages that hold [offset, offset + bytes) of a mapped file, clipped to it.
struct PageRange {
  void* begin = nullptr;
  size_t bytes = 0;
};

PageRange pages_of(const std::byte* data, uint64_t size, uint64_t offset, uint64_t bytes) {
  if (offset >= size) return {};
  bytes = std::min(bytes, size - offset);
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t first = offset / page * page;
  return {const_cast<std::byte*>(data) + first, offset + bytes - first};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  MappedFile file;
  file.path_ = path;
  // O_NONBLOCK: a named pipe without a writer must be refused below, not waited for.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor_ < 0) {
    const int error = errno;
    const StatusCode code = error == ENOENT || error == ENOTDIR ? StatusCode::kNotFound : StatusCode::kIoError;
    return Status(code, path + ": cannot open: " + system_reason(error));
  }
  struct stat status;
  if (fstat(file.descriptor_, &status) != 0) return io_error(path + ": cannot stat: " + system_reason(errno));
  if (!S_ISREG(status.st_mode)) return invalid_argument(path + ": not a regular file");
  const uint64_t size = static_cast<uint64_t>(status.st_size);
  if (size == 0) return file;

  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, file.descriptor_, 0);
  if (address == MAP_FAILED) {
    return io_error(path + ": cannot map " + std::to_string(size) + " bytes: " + system_reason(errno));
  }
  file.data_ = static_cast<const std::byte*>(address);
  file.size_ = size;
  file.guard_ = guard_mapped_range(address, size, path);
  if (file.guard_ < 0) {
    return Status(StatusCode::kResourceExhausted,
                  path + ": more than " + std::to_string(kMaxMappedFiles) + " files are mapped");
  }
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept {
  *this = std::move(other);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  path_ = std::move(other.path_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  descriptor_ = std::exchange(other.descriptor_, -1);
  guard_ = std::exchange(other.guard_, -1);
  return *this;
}

MappedFile::~MappedFile() {
  close();
}

void MappedFile::close() noexcept {
  if (guard_ >= 0) release_mapped_range(guard_);
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
  guard_ = -1;
  data_ = nullptr;
  size_ = 0;
  descriptor_ = -1;
}

Status MappedFile::copy(uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    return corrupt_file(path_ + ": bytes " + std::to_string(offset) + " to " + std::to_string(offset + out.size()) +
                        " lie beyond its end at " + std::to_string(size_));
  }
  posix_fadvise(descriptor_, 0, 0, POSIX_FADV_RANDOM);
  Status result;
  for (size_t done = 0; done < out.size();) {
    const ssize_t got = pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      result =
          io_error(path_ + ": cannot read at offset " + std::to_string(offset + done) + ": " + system_reason(errno));
      break;
    }
    if (got == 0) {
      result = corrupt_file(path_ + ": ends at offset " + std::to_string(offset + done) + ", had " +
                            std::to_string(size_) + " bytes when it was opened");
      break;
    }
    done += static_cast<size_t>(got);
  }
  posix_fadvise(descriptor_, 0, 0, POSIX_FADV_NORMAL);
  return result;
}

void MappedFile::prefetch(uint64_t offset, uint64_t bytes) const {
  const PageRange range = pages_of(data_, size_, offset, bytes);
  if (range.bytes > 0) posix_madvise(range.begin, range.bytes, POSIX_MADV_WILLNEED);
}

void MappedFile::expect_random(uint64_t offset, uint64_t bytes) const {
  const PageRange range = pages_of(data_, size_, offset, bytes);
  if (range.bytes > 0) posix_madvise(range.begin, range.bytes, POSIX_MADV_RANDOM);
}

}  // namespace deepinfer
