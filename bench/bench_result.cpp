#include "bench/bench_result.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#ifdef DEEPINFER_HAS_CUDA
#include "backends/cuda/ceilings/ceilings.h"
#endif

namespace deepinfer::bench {
namespace {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line))
    if (line.starts_with("model name"))
      if (const size_t at = line.find(": "); at != std::string::npos) return line.substr(at + 2);
  return "unknown processor";
}

// Four significant digits without an exponent.
std::string number(double value) {
  const double size = value < 0 ? -value : value;
  const int decimals = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
  return fmt::format("{:.{}f}", value, decimals);
}

}  // namespace

bool BenchResult::less_is_better() const {
  return unit == "s" || unit == "ms" || unit == "us" || unit == "ns" || unit == "MB";
}

std::optional<double> BenchResult::ratio() const {
  if (!limit || *limit <= 0 || value <= 0) return std::nullopt;
  return less_is_better() ? *limit / value : value / *limit;
}

std::string hardware_text(std::string_view backend) {
#ifdef DEEPINFER_HAS_CUDA
  if (backend.starts_with("cuda/")) {
    if (const Result<cuda::Device> device = cuda::current_device(); device.ok())
      return fmt::format("{}, {}, {:.0f} GB", device->name, backend, static_cast<double>(device->memory_bytes) / 1e9);
  }
#endif
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  return fmt::format("{}, {} cores, {}, {:.0f} GB", processor_name(), sysconf(_SC_NPROCESSORS_ONLN), backend,
                     memory / 1e9);
}

std::string result_line(const BenchResult& result) {
  std::string line = fmt::format("{:<44} {:>10} {:<9}", result.name, number(result.value), result.unit);
  line += result.limit ? fmt::format(" limit {:>10}", number(*result.limit)) : fmt::format("{:17}", "");
  line += result.ratio() ? fmt::format("  {:>5.1f} %", 100 * *result.ratio()) : fmt::format("{:9}", "");
  if (!result.note.empty()) line += "  " + result.note;
  return line + "\n";
}

std::string result_json(const BenchResult& result, std::string_view hardware, std::string_view commit) {
  nlohmann::ordered_json object{
      {"name", result.name}, {"value", result.value}, {"unit", result.unit}, {"limit", nullptr}, {"ratio", nullptr}};
  if (result.limit) object["limit"] = *result.limit;
  if (result.ratio()) object["ratio"] = *result.ratio();
  object["hardware"] = hardware;
  object["commit"] = commit;
  if (!result.note.empty()) object["note"] = result.note;
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace deepinfer::bench
