#include "terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>

namespace deepinfer::cli {

bool standard_input_is_terminal() {
  return ::isatty(STDIN_FILENO) == 1;
}
bool standard_output_is_terminal() {
  return ::isatty(STDOUT_FILENO) == 1;
}
bool standard_error_is_terminal() {
  return ::isatty(STDERR_FILENO) == 1;
}

bool standard_error_has_colour() {
  const char* term = std::getenv("TERM");
  const char* no_colour = std::getenv("NO_COLOR");
  return standard_error_is_terminal() && term != nullptr && std::string_view(term) != "dumb" &&
         (no_colour == nullptr || *no_colour == '\0');
}

void write_standard_error(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;  // nowhere left to say so
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
}

ProgressLine::ProgressLine(std::string label, int64_t total)
    : label_(std::move(label)), total_(std::max<int64_t>(total, 1)), visible_(standard_error_is_terminal()) {}

ProgressLine::~ProgressLine() {
  if (visible_ && next_draw_ != std::chrono::steady_clock::time_point()) write_standard_error("\r\033[K");
}

void ProgressLine::advance(int64_t bytes) {
  done_ += bytes;
  if (!visible_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + std::chrono::milliseconds(100);
  draw();
}

void ProgressLine::draw() {
  constexpr int kWidth = 30;
  const double fraction = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  const int filled = static_cast<int>(fraction * kWidth);
  write_standard_error(fmt::format("\r{} [{:#<{}}{:.<{}}] {:3.0f} %  {}\033[K", label_, "", filled, "", kWidth - filled,
                                   100 * fraction, format_bytes(done_)));
}

std::string format_bytes(int64_t bytes) {
  constexpr std::array units = {"bytes", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} bytes", bytes);
  return fmt::format("{:.{}f} {}", value, value < 99.95 ? 1 : 0, units[unit]);
}

}  // namespace deepinfer::cli
