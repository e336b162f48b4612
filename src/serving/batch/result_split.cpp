#include "serving/batch/result_split.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "serving/batch/result_line.h"

namespace deepinfer::serving {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

Status failed(const std::string& name, const char* what) {
  return io_error(fmt::format("{}: {}: {}", name, what, std::generic_category().message(errno)));
}

class File {
 public:
  File(const std::filesystem::path& path, int flags)
      : name_(path.string()), descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  Status opened() const { return descriptor_ >= 0 ? Status() : failed(name_, "cannot be opened"); }
  // The bytes read; 0 at the end.
  Result<size_t> read(std::string& piece) {
    ssize_t got = 0;
    do {
      got = ::read(descriptor_, piece.data(), piece.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) return failed(name_, "cannot be read");
    return static_cast<size_t>(got);
  }
  Status write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return failed(name_, "cannot write");
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return {};
  }
  Status sync() { return ::fsync(descriptor_) == 0 ? Status() : failed(name_, "cannot be brought to the disk"); }

 private:
  std::string name_;
  int descriptor_;
};

// Where the lines of a kind go; null: nowhere.
struct Sinks {
  File* answers = nullptr;
  File* errors = nullptr;

  Status write(bool answer, std::string_view bytes) const {
    File* const file = answer ? answers : errors;
    return file == nullptr ? Status() : file->write(bytes);
  }
};

Result<ResultCounts> walk(const std::filesystem::path& path, const Sinks& sinks) {
  File results(path, O_RDONLY);
  DI_RETURN_IF_ERROR(results.opened());
  ResultCounts counts;
  std::string piece(kPieceBytes, '\0');
  std::string begun;                   // of a line, until it is known what it is
  bool known = false, answer = false;  // what the present line is
  for (;;) {
    DI_ASSIGN_OR_RETURN(const size_t got, results.read(piece));
    if (got == 0) return counts;
    std::string_view rest(piece.data(), got);
    while (!rest.empty()) {
      const size_t found = rest.find('\n');
      const bool ends = found != std::string_view::npos;
      const std::string_view part = rest.substr(0, ends ? found + 1 : found);
      rest.remove_prefix(part.size());
      if (known) {
        DI_RETURN_IF_ERROR(sinks.write(answer, part));
      } else {
        begun += part;
        const std::optional<bool> is = is_answer(begun);
        known = is.has_value() || ends;
        if (!known) continue;
        answer = is.value_or(false);
        DI_RETURN_IF_ERROR(sinks.write(answer, std::exchange(begun, {})));
      }
      if (!ends) continue;
      ++(answer ? counts.answers : counts.errors);
      known = false;
    }
  }
}

}  // namespace

Result<ResultCounts> count_results(const std::filesystem::path& results) {
  return walk(results, {});
}

Result<ResultCounts> split_results(const std::filesystem::path& results, const std::filesystem::path& answers,
                                   const std::filesystem::path& errors) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  File answer_file(answers, kFlags), error_file(errors, kFlags);
  DI_RETURN_IF_ERROR(answer_file.opened());
  DI_RETURN_IF_ERROR(error_file.opened());
  DI_ASSIGN_OR_RETURN(const ResultCounts counts, walk(results, {&answer_file, &error_file}));
  DI_RETURN_IF_ERROR(answer_file.sync());
  DI_RETURN_IF_ERROR(error_file.sync());
  return counts;
}

}  // namespace deepinfer::serving
