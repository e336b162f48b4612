#include "standard_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace deepinfer::cli {

bool StandardOutput::write(std::string_view text) {
  if (reader_gone_ || !status_.ok()) return false;
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      if (written > 0) last_byte_ = text[static_cast<size_t>(written) - 1];
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      // Somebody left the pipe in non-blocking mode: wait for room.
      pollfd room{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno == EPIPE) {
      reader_gone_ = true;
      return false;
    } else if (errno != EINTR) {
      status_ = io_error(fmt::format("cannot write to standard output: {}", std::generic_category().message(errno)));
      return false;
    }
  }
  return true;
}

void keep_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) != -1) continue;
    // Opened the wrong way round, so that its use is still the error that it was.
    ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void ignore_broken_pipes() {
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace deepinfer::cli
