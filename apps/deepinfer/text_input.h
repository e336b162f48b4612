// Text that a person hands to the program: an argument, a file or standard input.  Always valid UTF-8.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace deepinfer::cli {

// More than any model's context holds.
inline constexpr int64_t kMaxInputBytes = int64_t{256} << 20;

// The whole of a file ("-": standard input), byte for byte; pipes too.  Errors name the file and the system's reason,
// or kMaxInputBytes.
Result<std::string> read_bytes(const std::filesystem::path& file);

// Why reading `name` failed, from the system's error number.
Status read_error(std::string_view name, int error);

// Fails where text is not UTF-8, naming `source` and the offset of the first bad byte.
Status check_utf8(std::string_view text, std::string_view source);

// Whether read_text has anything to read: an argument, a file, or a standard input that is no terminal.
bool text_is_given(const std::optional<std::string>& argument, const std::optional<std::string>& file);

// "the argument", the file's name or "standard input", whichever read_text reads.
std::string source_of(const std::optional<std::string>& argument, const std::optional<std::string>& file);

// The text of `argument`, else of `file`, else of standard input.  One final line break of a file or of standard input
// is removed, so that `run "Hi"`, `echo Hi | run` and `run -f` of a file with that line ask the same.  Checked to be
// UTF-8. Invalid argument: both an argument and a file, or neither while standard input is a terminal.
Result<std::string> read_text(const std::optional<std::string>& argument, const std::optional<std::string>& file,
                              std::string_view what);  // what: "prompt", for messages

}  // namespace deepinfer::cli
