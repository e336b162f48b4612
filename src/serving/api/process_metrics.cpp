#include "serving/api/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "engine/metrics/exposition.h"

namespace deepinfer::serving {

std::string process_metrics_text() {
  Exposition out;
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    out.begin_counter("process_cpu_seconds_total", "CPU time of this process, in user and system mode.");
    out.sample(seconds(usage.ru_utime) + seconds(usage.ru_stime));
  }
  int64_t size = 0, resident = 0;
  if (std::ifstream("/proc/self/statm") >> size >> resident) {
    const int64_t page = ::sysconf(_SC_PAGESIZE);
    out.gauge("process_virtual_memory_bytes", "Address space of this process.", size * page);
    out.gauge("process_resident_memory_bytes", "Memory of this process, mapped model files included.", resident * page);
  }
  std::error_code error;
  const std::filesystem::directory_iterator descriptors("/proc/self/fd", error);
  if (!error) {
    const auto open = std::distance(begin(descriptors), end(descriptors));
    out.gauge("process_open_fds", "Open file descriptors.", open - 1);  // but the one that lists them
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    out.begin_gauge("process_max_fds", "File descriptors that this process may open.");
    out.sample(limit.rlim_cur == RLIM_INFINITY ? HUGE_VAL : static_cast<double>(limit.rlim_cur));
  }
  return out.take();
}

}  // namespace deepinfer::serving
