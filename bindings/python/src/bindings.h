// The parts of deepinfer._core; each file binds one subject.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>

namespace deepinfer::python {

void bind_tokenizer(nanobind::module_& module);
void bind_engine(nanobind::module_& module);  // calls the next two
void bind_request(nanobind::module_& module);
void bind_answer(nanobind::module_& module);
void bind_encoding(nanobind::module_& module);

// As Python's numbers say a time.
inline double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace deepinfer::python
