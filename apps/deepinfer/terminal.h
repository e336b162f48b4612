// What standard error may show: plain lines always; dim text and a progress line only on a terminal that allows them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace deepinfer::cli {

bool standard_input_is_terminal();
bool standard_output_is_terminal();
bool standard_error_is_terminal();

// Colour on standard error: a terminal, TERM is not "dumb", and NO_COLOR is not set.
bool standard_error_has_colour();

// Writes at once, unbuffered.
void write_standard_error(std::string_view text);

// A line such as "checking  [#######...]  42 %  15.1 GB" that redraws itself at most ten times a second.  Silent when
// standard error is no terminal.  The destructor removes the line.
class ProgressLine {
 public:
  // total and done are bytes.
  ProgressLine(std::string label, int64_t total);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void advance(int64_t bytes);

 private:
  void draw();

  std::string label_;
  int64_t total_;
  int64_t done_ = 0;
  bool visible_;
  std::chrono::steady_clock::time_point next_draw_;
};

// "36.4 MB", "510 GB": decimal units.
std::string format_bytes(int64_t bytes);

}  // namespace deepinfer::cli
