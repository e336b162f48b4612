// Tokenizer.  Texts go in as UTF-8 bytes (lone surrogates of a str as three bytes), which the tokenizer repairs.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "raise_status.h"
#include "text/tokenizer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace deepinfer::python {

void bind_tokenizer(nb::module_& module) {
  nb::class_<Tokenizer>(module, "Tokenizer")
      .def(
          "encode",
          [](const Tokenizer& self, nb::bytes text, bool allow_special) {
            const std::string_view bytes(text.c_str(), text.size());
            std::vector<int32_t> ids;
            {
              nb::gil_scoped_release unlocked;
              raise_if_error(allow_special ? self.encode(bytes, ids) : self.encode_plain(bytes, ids));
            }
            return ids;
          },
          "text"_a, "allow_special"_a = false)
      .def(
          "decode", [](const Tokenizer& self, const std::vector<int32_t>& ids) { return self.decode(ids); }, "ids"_a,
          nb::call_guard<nb::gil_scoped_release>())
      .def(
          "token_bytes",
          [](const Tokenizer& self, int32_t id) {
            const std::string_view bytes = self.bytes(id);
            return nb::bytes(bytes.data(), bytes.size());
          },
          "id"_a)
      .def(
          "id",
          [](const Tokenizer& self, nb::bytes spelling) {
            return self.id(std::string_view(spelling.c_str(), spelling.size()));
          },
          "spelling"_a)
      .def("is_added", &Tokenizer::is_added, "id"_a)
      .def("is_special", &Tokenizer::is_special, "id"_a)
      .def_prop_ro("vocabulary", &Tokenizer::vocabulary);
  module.def(
      "load_tokenizer",
      [](const std::string& file) { return std::shared_ptr<Tokenizer>(value_or_raise(Tokenizer::load(file))); },
      "file"_a, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace deepinfer::python
