#include "text_input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "terminal.h"
#include "text/utf8.h"

namespace deepinfer::cli {
namespace {

// Offset of the first byte that is no part of a character.
size_t first_invalid_byte(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Prefix prefix = utf8_prefix(text.substr(at));
    if (prefix.kind != Utf8Prefix::Kind::kCharacter) break;
    at += prefix.length;
  }
  return at;
}

Status too_long(std::string_view name) {
  return invalid_argument(fmt::format("{} has more than {} bytes, the most that is read", name, kMaxInputBytes));
}

// Up to its end, which a pipe does not announce.
Result<std::string> read_descriptor(int descriptor, std::string_view name) {
  struct stat state;
  if (::fstat(descriptor, &state) == 0 && S_ISREG(state.st_mode) && state.st_size > kMaxInputBytes)
    return too_long(name);
  std::string text;
  while (true) {
    constexpr size_t kPiece = 1 << 16;
    const size_t size = text.size();
    text.resize(size + kPiece);
    const ssize_t got = ::read(descriptor, text.data() + size, kPiece);
    const int error = errno;
    text.resize(size + static_cast<size_t>(got > 0 ? got : 0));
    if (got == 0) return text;
    if (got < 0 && error != EINTR) return read_error(name, error);
    if (static_cast<int64_t>(text.size()) > kMaxInputBytes) return too_long(name);
  }
}

}  // namespace

Status read_error(std::string_view name, int error) {
  const auto code =
      error == ENOENT || error == EISDIR || error == ENOTDIR ? StatusCode::kNotFound : StatusCode::kIoError;
  return {code, fmt::format("cannot read {}: {}", name, std::generic_category().message(error))};
}

Result<std::string> read_bytes(const std::filesystem::path& file) {
  const bool standard_input = file == "-";
  if (file.empty()) return invalid_argument("a file name is empty");
  const std::string name = standard_input ? "standard input" : file.string();
  const int descriptor = standard_input ? STDIN_FILENO : ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return read_error(name, errno);
  Result<std::string> text = read_descriptor(descriptor, name);
  if (!standard_input) ::close(descriptor);
  return text;
}

Status check_utf8(std::string_view text, std::string_view source) {
  if (is_valid_utf8(text)) return {};
  const size_t offset = first_invalid_byte(text);
  return invalid_argument(fmt::format("{} is not valid UTF-8: byte 0x{:02X} at offset {}", source,
                                      static_cast<unsigned char>(text[offset]), offset));
}

bool text_is_given(const std::optional<std::string>& argument, const std::optional<std::string>& file) {
  return argument || file || !standard_input_is_terminal();
}

std::string source_of(const std::optional<std::string>& argument, const std::optional<std::string>& file) {
  if (argument) return "the argument";
  return !file || *file == "-" ? "standard input" : *file;
}

Result<std::string> read_text(const std::optional<std::string>& argument, const std::optional<std::string>& file,
                              std::string_view what) {
  if (argument) {
    DI_RETURN_IF_ERROR(check_utf8(*argument, fmt::format("the {}", what)));
    return *argument;
  }
  DI_ASSIGN_OR_RETURN(std::string text, read_bytes(file.value_or("-")));
  DI_RETURN_IF_ERROR(check_utf8(text, source_of(argument, file)));
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

}  // namespace deepinfer::cli
