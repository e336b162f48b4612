#include "serving/batch/batch_input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace deepinfer::serving {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

Status read_error(const std::string& name) {
  return io_error(fmt::format("{}: cannot read: {}", name, std::generic_category().message(errno)));
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

// Hash of one line, piece by piece.
class LineHash {
 public:
  explicit LineHash(int64_t position) { XXH3_128bits_reset_withSeed(&state_, static_cast<uint64_t>(position)); }
  void add(std::string_view piece) { XXH3_128bits_update(&state_, piece.data(), piece.size()); }
  std::string key() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  XXH3_state_t state_{};
};

}  // namespace

Result<BatchInput> BatchInput::open(const std::filesystem::path& path) {
  if (path == "-") return BatchInput("standard input", ::dup(STDIN_FILENO));
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const std::string why = fmt::format("{}: {}", path.string(), std::generic_category().message(errno));
    return errno == ENOENT ? not_found(why) : io_error(why);
  }
  struct stat about {};
  if (::fstat(descriptor, &about) == 0 && S_ISDIR(about.st_mode)) {
    ::close(descriptor);
    return invalid_argument(fmt::format("{}: is a folder, a JSONL file is needed", path.string()));
  }
  return BatchInput(path.string(), descriptor);
}

BatchInput::BatchInput(BatchInput&& other) noexcept
    : name_(std::move(other.name_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

BatchInput::~BatchInput() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

// Reads another piece behind what is in the buffer; false at the end.
Result<bool> BatchInput::fill() {
  if (at_end_) return false;
  buffer_.erase(0, std::exchange(at_, 0));
  const size_t before = buffer_.size();
  buffer_.resize(before + kPieceBytes);
  ssize_t got = 0;
  do {
    got = ::read(descriptor_, buffer_.data() + before, kPieceBytes);
  } while (got < 0 && errno == EINTR);
  buffer_.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) return read_error(name_);
  at_end_ = got == 0;
  return got > 0;
}

Result<std::optional<InputLine>> BatchInput::next() {
  if (returned_) return std::exchange(returned_, {});
  for (;;) {
    InputLine line;
    LineHash hash(positions_);
    bool blank = true, ended = false, any = false;
    while (!ended) {
      if (at_ == buffer_.size()) {
        DI_ASSIGN_OR_RETURN(const bool more, fill());
        if (!more) break;
      }
      any = true;
      const std::string_view rest = std::string_view(buffer_).substr(at_);
      const size_t length = rest.find('\n');
      ended = length != std::string_view::npos;
      const std::string_view piece = rest.substr(0, length);
      hash.add(piece);
      blank = blank && is_blank(piece);
      if (line.text.size() + piece.size() > kMostLineBytes) {
        line.too_long = true;
        line.text = {};
      }
      if (!line.too_long) line.text += piece;
      at_ += piece.size() + (ended ? 1 : 0);
    }
    if (!any) return std::optional<InputLine>();
    line.number = ++lines_;
    if (blank) continue;
    line.position = positions_++;
    line.key = hash.key();
    return std::optional<InputLine>(std::move(line));
  }
}

Result<std::optional<int64_t>> BatchInput::count_lines() const {
  struct stat about {};
  if (::fstat(descriptor_, &about) != 0 || !S_ISREG(about.st_mode)) return std::optional<int64_t>();
  std::string piece(kPieceBytes, '\0');
  int64_t lines = 0;
  bool blank = true;
  for (off_t offset = 0;;) {
    const ssize_t got = ::pread(descriptor_, piece.data(), piece.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return read_error(name_);
    if (got == 0) break;
    offset += got;
    std::string_view rest(piece.data(), static_cast<size_t>(got));
    while (!rest.empty()) {
      const size_t length = rest.find('\n');
      blank = blank && is_blank(rest.substr(0, length));
      if (length == std::string_view::npos) break;
      if (!std::exchange(blank, true)) ++lines;
      rest.remove_prefix(length + 1);
    }
  }
  return std::optional<int64_t>(lines + (blank ? 0 : 1));
}

bool BatchInput::is_same_file(int descriptor) const {
  struct stat one {
  }, other{};
  return ::fstat(descriptor_, &one) == 0 && ::fstat(descriptor, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

}  // namespace deepinfer::serving
