// The parts of deepinfer._core; each file binds one subject.
#pragma once

#include <nanobind/nanobind.h>

namespace deepinfer::python {

void bind_tokenizer(nanobind::module_& module);
void bind_engine(nanobind::module_& module);
void bind_encoding(nanobind::module_& module);

}  // namespace deepinfer::python
