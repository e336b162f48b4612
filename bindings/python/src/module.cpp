// deepinfer._core: the libraries as the Python package needs them.  Users import `deepinfer`, never this module.
#include "bindings.h"

NB_MODULE(_core, module) {
  module.doc() = "The C++ libraries of DeepInfer; import `deepinfer` instead.";
  deepinfer::python::bind_tokenizer(module);
  deepinfer::python::bind_engine(module);
  deepinfer::python::bind_encoding(module);
}
