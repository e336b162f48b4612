// or_out_of_memory: where a library meets its caller, memory that cannot be had becomes an error of that call.  Called
// once in each public function whose allocations follow the size of a file or of a request (docs/architecture.md,
// "Errors"); nothing inside such a function catches anything.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "base/status.h"

namespace deepinfer {

// kResourceExhausted: "not enough memory for WHAT".  describe() makes WHAT: what was being made and how large it is.
template <typename Describe>
Status out_of_memory(Describe&& describe) noexcept {
  try {
    return {StatusCode::kResourceExhausted, std::string("not enough memory for ") + std::string(describe())};
  } catch (...) {  // not even for the message; these few bytes need none
    return {StatusCode::kResourceExhausted, "out of memory"};
  }
}

// work(), a Status or a Result; std::bad_alloc and std::length_error (a size beyond all memory) become an error.
template <typename Describe, typename Work>
std::invoke_result_t<Work&> or_out_of_memory(Describe&& describe, Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return out_of_memory(describe);
  } catch (const std::length_error&) {
    return out_of_memory(describe);
  }
}

}  // namespace deepinfer
