// DI_CHECK: a programmer error aborts with the condition, the place and the values.  Never used on request or file data.
#pragma once

#include <string_view>

namespace deepinfer {
[[noreturn]] void check_failed(const char* condition, const char* file, int line, std::string_view message);
}

#define DI_CHECK(condition, message)                                                        \
  do {                                                                                      \
    if (!(condition)) [[unlikely]] ::deepinfer::check_failed(#condition, __FILE__, __LINE__, message); \
  } while (false)
