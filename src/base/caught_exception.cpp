#include "base/caught_exception.h"

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace deepinfer {
namespace {

Status failed(StatusCode code, std::string_view doing, const char* why) noexcept {
  try {
    return {code, std::string(doing) + ": " + why};
  } catch (...) {
    return {code, "out of memory"};  // so short that it needs none
  }
}

}  // namespace

Status caught_exception(std::string_view doing) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return failed(StatusCode::kResourceExhausted, doing, "not enough memory");
  } catch (const std::length_error&) {
    return failed(StatusCode::kResourceExhausted, doing, "not enough memory");
  } catch (const std::system_error& problem) {  // no more threads, for one
    const bool limit = problem.code() == std::errc::resource_unavailable_try_again;
    return failed(limit ? StatusCode::kResourceExhausted : StatusCode::kInternal, doing, problem.what());
  } catch (const std::exception& problem) {
    return failed(StatusCode::kInternal, doing, problem.what());
  } catch (...) {
    return failed(StatusCode::kInternal, doing, "an exception of an unknown type");
  }
}

Status copy_without_fail(const Status& status) noexcept {
  try {
    return status;
  } catch (...) {
    return {status.code(), "out of memory"};
  }
}

}  // namespace deepinfer
