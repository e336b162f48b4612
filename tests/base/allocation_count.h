// Counts what operator new is asked for, and lets one request fail.  A program that links allocation_count.cpp has its
// operator new replaced, which a sanitizer wants for itself: such programs are left out of sanitizer builds.
#pragma once

#include <cstdint>

namespace deepinfer {

// Since the program's start, on all threads.
int64_t allocation_count();

// While it lives, `count` allocations from the nth on (0: the next one), on whatever thread, throw std::bad_alloc.
class FailedAllocation {
 public:
  explicit FailedAllocation(int64_t nth, int64_t count = 1);
  ~FailedAllocation();
  FailedAllocation(const FailedAllocation&) = delete;
  FailedAllocation& operator=(const FailedAllocation&) = delete;
  bool happened() const;
};

}  // namespace deepinfer
