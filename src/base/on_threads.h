// on_threads: a piece of work in as many parts as there shall be threads, for work that is rare and large; what comes
// again and again has a ThreadPool.
#pragma once

#include <cstddef>

#include "base/function_ref.h"

namespace deepinfer {

// work(0) to work(count - 1), each once: 0 on this thread, the others on threads of their own, or on this one where no
// more are to be had.  work throws nothing.  Returns when all have.
void on_threads(std::size_t count, FunctionRef<void(std::size_t)> work);

}  // namespace deepinfer
