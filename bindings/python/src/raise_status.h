// Errors of the libraries as Python exceptions.  Inside the module deepinfer._core only.
#pragma once

#include <nanobind/nanobind.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "base/status.h"

namespace deepinfer::python {

// invalid argument, closing: ValueError; not found: FileNotFoundError; no memory: MemoryError; everything else:
// RuntimeError. May be called without the interpreter's lock.
[[noreturn]] inline void raise(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kCancelled:  // the engine is closing
      throw nanobind::value_error(status.message().c_str());
    case StatusCode::kNotFound: {
      nanobind::gil_scoped_acquire lock;
      PyErr_SetString(PyExc_FileNotFoundError, status.message().c_str());
      throw nanobind::python_error();
    }
    case StatusCode::kResourceExhausted: {
      nanobind::gil_scoped_acquire lock;
      PyErr_SetString(PyExc_MemoryError, status.message().c_str());
      throw nanobind::python_error();
    }
    default:
      throw std::runtime_error(status.to_string());
  }
}

inline void raise_if_error(const Status& status) {
  if (!status.ok()) raise(status);
}

template <typename T>
T value_or_raise(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

}  // namespace deepinfer::python
