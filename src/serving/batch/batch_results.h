// The results file of a batch job: append-only, one line a request, in the order of the requests.  A line begins with
// the key of its input line, so the file itself says which lines are answered and whether they are still the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace deepinfer::serving {

class BatchResults {
 public:
  // Opens or creates the file for this process only; another job that writes it is an error.
  static Result<std::unique_ptr<BatchResults>> open(const std::filesystem::path& path);
  ~BatchResults();
  BatchResults(const BatchResults&) = delete;
  BatchResults& operator=(const BatchResults&) = delete;

  int descriptor() const { return descriptor_; }

  // What the next complete line that is already there begins with (as long as result_head()); nothing at their end.
  Result<std::optional<std::string>> next_head();
  // After the last of next_head(): cuts off a torn last line.  An error if these bytes are not the beginning of a line
  // that begins with `head` (empty: of no line): a file that is no result of this job keeps its bytes.
  Status cut_torn_line(std::string_view head);

  // Appends whole lines.  After an error the file ends with the last whole line that was written before it.
  Status append(std::string_view lines);
  // On the disk, not only in the system's memory.
  Status sync();

 private:
  BatchResults(std::string name, int descriptor) : name_(std::move(name)), descriptor_(descriptor) {}
  Status system_error(const char* what) const;

  std::string name_;
  int descriptor_;
  // Of the reading at start.
  std::string buffer_;
  size_t at_ = 0;
  int64_t read_bytes_ = 0;
  std::string torn_;  // first bytes of the line without end
  int64_t end_ = 0;   // of the last whole line
  bool dirty_ = false;
};

}  // namespace deepinfer::serving
