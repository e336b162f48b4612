// RecordedLaunches: kernels with their arguments in the order in which they will run.  Filled by LaunchList.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/status.h"

struct CUstream_st;

namespace deepinfer::cuda {

// Kernels of a side line run one after the other, each behind what the main line had before it; the main line does not
// wait for them until it joins the line.
enum class SideLine : uint8_t { kCoefficients, kRecords };
constexpr int kSideLines = 2;
constexpr uint8_t kAllSideLines = (1 << kSideLines) - 1;

struct LaunchShape {
  const void* kernel = nullptr;
  unsigned grid[3] = {1, 1, 1};  // blocks
  int threads = 0;               // of a block
  int64_t shared = 0;            // bytes of dynamic shared memory of a block
  unsigned cluster = 0;          // blocks of a cluster; 0: launched without
  bool early = false;            // may be launched before the kernel in front of it has ended: it waits by itself
  int8_t beside = -1;            // the side line that it belongs to; -1: the main line
  uint8_t joins = 0;             // of the main line: behind these side lines too, a bit each

  // Whether the two differ in the grid at most: all that a node of an executable graph can change.
  bool same_but_for_grid(const LaunchShape& other) const {
    return kernel == other.kernel && threads == other.threads && shared == other.shared && cluster == other.cluster &&
           early == other.early && beside == other.beside && joins == other.joins;
  }
  bool same_grid(const LaunchShape& other) const {
    return grid[0] == other.grid[0] && grid[1] == other.grid[1] && grid[2] == other.grid[2];
  }
};

// Launches with the type of the kernel's arguments; made by launch().
using StartKernel = Status (*)(const LaunchShape& shape, std::string_view name, const void* arguments,
                               CUstream_st* queue);

struct RecordedLaunch {
  LaunchShape shape;
  StartKernel start = nullptr;
  std::string_view name;  // a literal
  size_t first_line = 0;  // of the arguments
  size_t argument_bytes = 0;
};

class RecordedLaunches {
 public:
  // Room for so many launches and bytes of arguments: add() allocates nothing up to there.
  void reserve(size_t launches, size_t argument_bytes) {
    launches_.reserve(launches);
    lines_.reserve(argument_bytes / sizeof(Line));
  }
  bool has_room(size_t argument_bytes) const {
    return launches_.size() < launches_.capacity() && lines_.size() + lines_of(argument_bytes) <= lines_.capacity();
  }
  void add(const LaunchShape& shape, StartKernel start, std::string_view name, const void* arguments, size_t bytes) {
    launches_.push_back({shape, start, name, lines_.size(), bytes});
    lines_.resize(lines_.size() + lines_of(bytes));
    std::memcpy(lines_[launches_.back().first_line].bytes, arguments, bytes);
    mix(reinterpret_cast<uintptr_t>(shape.kernel));
    mix(static_cast<uint64_t>(shape.threads) << 32 ^ static_cast<uint64_t>(shape.shared) << 4 ^ shape.cluster << 1 ^
        (shape.early ? 1u : 0u) ^ static_cast<uint64_t>(shape.beside + 1) << 8 ^ uint64_t{shape.joins} << 12);
    grids_ = (grids_ ^ shape.grid[0] ^ uint64_t{shape.grid[1]} << 24 ^ uint64_t{shape.grid[2]} << 48) * kPrime;
  }
  void clear() {
    launches_.clear();
    lines_.clear();
    kernels_ = grids_ = 0;
  }

  size_t count() const { return launches_.size(); }
  const RecordedLaunch& operator[](size_t i) const { return launches_[i]; }
  const void* arguments(size_t i) const { return lines_[launches_[i].first_line].bytes; }
  void set(size_t i, const LaunchShape& shape, const void* arguments) {
    launches_[i].shape = shape;
    std::memcpy(lines_[launches_[i].first_line].bytes, arguments, launches_[i].argument_bytes);
  }
  // Hashes: of everything but grids and arguments; of grids as well.
  uint64_t kernels_key() const { return kernels_; }
  uint64_t shape_key() const { return kernels_ * kPrime ^ grids_; }

 private:
  static constexpr uint64_t kPrime = 0x9e3779b97f4a7c15u;
  struct alignas(64) Line {  // an argument struct may be aligned to so much
    std::byte bytes[64];
  };
  static size_t lines_of(size_t bytes) { return (bytes + sizeof(Line) - 1) / sizeof(Line); }
  void mix(uint64_t word) {
    kernels_ = (kernels_ ^ word) * kPrime;
    kernels_ ^= kernels_ >> 29;
  }

  std::vector<RecordedLaunch> launches_;
  std::vector<Line> lines_;
  uint64_t kernels_ = 0, grids_ = 0;
};

}  // namespace deepinfer::cuda
