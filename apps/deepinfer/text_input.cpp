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

Status read_error(std::string_view name, int error) {
  const auto code =
      error == ENOENT || error == EISDIR || error == ENOTDIR ? StatusCode::kNotFound : StatusCode::kIoError;
  return {code, fmt::format("cannot read {}: {}", name, std::generic_category().message(error))};
}

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

}  // namespace

Result<std::string> read_bytes(const std::filesystem::path& file) {
  const bool standard_input = file == "-";
  const std::string name = standard_input ? "standard input" : file.string();
  const int descriptor = standard_input ? STDIN_FILENO : ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return read_error(name, errno);
  std::string text;
  int error = 0;
  while (true) {
    constexpr size_t kPiece = 1 << 16;
    const size_t size = text.size();
    text.resize(size + kPiece);
    const ssize_t got = ::read(descriptor, text.data() + size, kPiece);
    text.resize(size + static_cast<size_t>(got > 0 ? got : 0));
    if (got == 0) break;
    if (got < 0 && errno != EINTR) {
      error = errno;
      break;
    }
  }
  if (!standard_input) ::close(descriptor);
  if (error != 0) return read_error(name, error);
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

Result<std::string> read_text(const std::optional<std::string>& argument, const std::optional<std::string>& file,
                              std::string_view what) {
  if (argument) {
    DI_RETURN_IF_ERROR(check_utf8(*argument, fmt::format("the {}", what)));
    return *argument;
  }
  const std::string source = file.value_or("-");
  DI_ASSIGN_OR_RETURN(std::string text, read_bytes(source));
  DI_RETURN_IF_ERROR(check_utf8(text, source == "-" ? "standard input" : source));
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

}  // namespace deepinfer::cli
