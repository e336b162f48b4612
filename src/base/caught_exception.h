// What becomes of an exception where nobody is there to catch it: at the bottom of a thread.  Used by the threads of
// engine, grammar compiler and tier, whose other work has to go on.
#pragma once

#include <string_view>

#include "base/status.h"

namespace deepinfer {

// Called in a catch block: the exception as an error, "DOING: what it says".  kResourceExhausted for std::bad_alloc,
// std::length_error and a thread that the system refuses, kInternal for others.  Where there is no memory for the
// message it is a short one.
Status caught_exception(std::string_view doing) noexcept;

// A copy, without its message where there is no memory for that.
Status copy_without_fail(const Status& status) noexcept;

}  // namespace deepinfer
