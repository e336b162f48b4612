#include "tensor/mapped_file_guard.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "tensor/mapped_file.h"

namespace deepinfer {
namespace {

// Written by threads that map and unmap, read by the handler on any thread without a lock: begin is stored last and
// cleared first, and an entry with begin 0 is skipped.
struct Entry {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  char path[240];  // the end of a longer path, which names the file
};

Entry entries[kMaxMappedFiles];
struct sigaction previous_action;

// Text assembled without allocation or locale: all a signal handler may do.
class HandlerText {
 public:
  void add(const char* text) {
    const size_t bytes = std::min(std::strlen(text), sizeof text_ - size_);
    std::memcpy(text_ + size_, text, bytes);
    size_ += bytes;
  }
  void add(uint64_t number) {
    char digits[21];
    char* first = digits + 20;
    *first = '\0';
    do {
      *--first = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    add(first);
  }
  void write_to_standard_error() const {
    for (size_t done = 0; done < size_;) {
      const ssize_t written = ::write(STDERR_FILENO, text_ + done, size_ - done);
      if (written <= 0) return;
      done += static_cast<size_t>(written);
    }
  }

 private:
  char text_[512];
  size_t size_ = 0;
};

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
    return;
  }
  if (previous_action.sa_handler == SIG_IGN && info->si_code <= 0) return;  // sent by a process, not by a fault
  if (previous_action.sa_handler == SIG_IGN || previous_action.sa_handler == SIG_DFL) {
    struct sigaction default_action = {};
    default_action.sa_handler = SIG_DFL;
    sigaction(signal, &default_action, nullptr);
    raise(signal);  // delivered when this handler returns
    return;
  }
  previous_action.sa_handler(signal);
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  if (info->si_code > 0) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(info->si_addr);
    for (const Entry& entry : entries) {
      const uintptr_t begin = entry.begin.load(std::memory_order_acquire);
      if (begin == 0 || address < begin || address >= entry.end.load(std::memory_order_relaxed)) continue;
      HandlerText text;
      text.add("deepinfer: error: ");
      text.add(entry.path);
      text.add(": the mapped file cannot be read at offset ");
      text.add(static_cast<uint64_t>(address - begin));
      text.add(" any more: it was shortened, or its storage failed\n");
      text.write_to_standard_error();
      _exit(kMappedFileLostExitCode);
    }
  }
  pass_on(signal, info, context);
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous_action);
  });
}

}  // namespace

int guard_mapped_range(const void* begin, size_t bytes, std::string_view path) {
  install_handler();
  for (int i = 0; i < kMaxMappedFiles; ++i) {
    Entry& entry = entries[i];
    if (entry.taken.exchange(true, std::memory_order_acquire)) continue;
    if (path.size() >= sizeof entry.path) path.remove_prefix(path.size() - (sizeof entry.path - 1));
    std::memcpy(entry.path, path.data(), path.size());
    entry.path[path.size()] = '\0';
    entry.end.store(reinterpret_cast<uintptr_t>(begin) + bytes, std::memory_order_relaxed);
    entry.begin.store(reinterpret_cast<uintptr_t>(begin), std::memory_order_release);
    return i;
  }
  return -1;
}

void release_mapped_range(int entry) {
  entries[entry].begin.store(0, std::memory_order_release);
  entries[entry].taken.store(false, std::memory_order_release);
}

}  // namespace deepinfer
