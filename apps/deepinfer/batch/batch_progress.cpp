#include "batch/batch_progress.h"

#include <fmt/format.h>

#include "terminal.h"

namespace deepinfer::cli {
namespace {

std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

std::string progress_text(const BatchCounts& counts, std::optional<int64_t> lines, double seconds,
                          double tokens_per_second) {
  const int64_t done = counts.answered_before + counts.answered;
  std::string text = lines ? fmt::format("done {}/{} lines", done, *lines) : fmt::format("done {} lines", done);
  text += fmt::format("  {:.0f} tokens/s", tokens_per_second);
  if (lines && counts.answered > 0) {
    const double each = seconds / static_cast<double>(counts.answered);
    text += fmt::format("  ETA {}", clock_text(each * static_cast<double>(*lines - done)));
  }
  if (counts.errors > 0) text += fmt::format("  {} errors", counts.errors);
  return text;
}

BatchProgress::BatchProgress(std::optional<int64_t> lines, bool quiet)
    : lines_(lines),
      quiet_(quiet),
      terminal_(standard_error_is_terminal()),
      start_(Clock::now()),
      next_(start_ + (terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(10'000))),
      window_start_(start_) {}

BatchProgress::~BatchProgress() {
  if (drawn_) write_standard_error("\r\033[K");
}

void BatchProgress::show(const BatchCounts& counts) {
  const auto now = Clock::now();
  if (quiet_ || now < next_) return;
  next_ = now + (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10'000));
  const double window = std::chrono::duration<double>(now - window_start_).count();
  if (window >= 2 || rate_ == 0) {
    rate_ = static_cast<double>(counts.answer_tokens - window_tokens_) / window;
    window_start_ = now;
    window_tokens_ = counts.answer_tokens;
  }
  const std::string text = progress_text(counts, lines_, seconds(), rate_);
  write_standard_error(terminal_ ? "\r" + text + "\033[K" : text + "\n");
  drawn_ = terminal_;
}

void BatchProgress::finish(const BatchCounts& counts) {
  if (drawn_) write_standard_error("\r\033[K");
  drawn_ = false;
  if (quiet_) return;
  const double elapsed = seconds();
  std::string text = fmt::format("{} lines answered, {} of them errors", counts.answered, counts.errors);
  if (counts.answered_before > 0) text += fmt::format("; {} were answered before", counts.answered_before);
  text += fmt::format("; {} prompt and {} answer tokens in {:.1f} s, {:.0f} answer tokens/s\n", counts.prompt_tokens,
                      counts.answer_tokens, elapsed,
                      elapsed > 0 ? static_cast<double>(counts.answer_tokens) / elapsed : 0.0);
  write_standard_error(text);
}

}  // namespace deepinfer::cli
