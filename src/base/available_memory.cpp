#include "base/available_memory.h"

#include <algorithm>
#include <fstream>
#include <string_view>

namespace deepinfer {
namespace {

std::optional<uint64_t> number_in(const std::string& path) {
  uint64_t value = 0;
  if (std::ifstream(path) >> value) return value;
  return std::nullopt;
}

// The number behind a word of a file of lines "word number ...".
std::optional<uint64_t> number_behind(const std::string& path, std::string_view word) {
  std::ifstream file(path);
  std::string name, rest;
  for (uint64_t value = 0; file >> name >> value; std::getline(file, rest))
    if (name == word) return value;
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> available_memory(const std::string& root) {
  std::optional<uint64_t> available = number_behind(root + "/proc/meminfo", "MemAvailable:");
  if (available) *available *= 1024;
  const std::string group = root + "/sys/fs/cgroup/";
  const auto limit = number_in(group + "memory.max"), used = number_in(group + "memory.current");  // "max": no limit
  if (!limit || !used) return available;
  uint64_t files = 0;
  for (const char* kind : {"active_file", "inactive_file"})
    files += number_behind(group + "memory.stat", kind).value_or(0);
  const uint64_t held = *used - std::min(*used, files), left = *limit - std::min(*limit, held);
  return available ? std::min(*available, left) : left;
}

}  // namespace deepinfer
