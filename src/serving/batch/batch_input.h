// The lines of a batch file, one at a time, in bounded memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"

namespace deepinfer::serving {

// Longest line that is read as a request, in bytes.
inline constexpr size_t kMostLineBytes = size_t{64} << 20;

struct InputLine {
  int64_t number = 0;     // from 1, empty lines counted
  int64_t position = 0;   // from 0, of the lines that are not empty
  bool too_long = false;  // text holds nothing then
  std::string text;       // without its line break
  std::string key;        // 32 hexadecimal digits of the position and of all bytes of the line
};

class BatchInput {
 public:
  // "-" is standard input.
  static Result<BatchInput> open(const std::filesystem::path& path);
  BatchInput(BatchInput&& other) noexcept;
  BatchInput& operator=(BatchInput&&) = delete;
  ~BatchInput();

  // The next line that is not empty, or nothing at the end.  Lines of white space are no requests.
  Result<std::optional<InputLine>> next();

  // next() gives this line once more, then goes on.
  void put_back(InputLine line) { returned_ = std::move(line); }

  // How many lines that are not empty there are; nothing where the input is no file that can be read twice.
  Result<std::optional<int64_t>> count_lines() const;
  bool is_same_file(int descriptor) const;

 private:
  BatchInput(std::string name, int descriptor) : name_(std::move(name)), descriptor_(descriptor) {}
  Result<bool> fill();

  std::string name_;
  int descriptor_;
  std::string buffer_;
  size_t at_ = 0;
  bool at_end_ = false;
  std::optional<InputLine> returned_;
  int64_t lines_ = 0, positions_ = 0;
};

}  // namespace deepinfer::serving
