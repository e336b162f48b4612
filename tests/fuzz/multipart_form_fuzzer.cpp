// Any bytes as a form, its content-type up to the first line end: no crash, and what is read lies in the body, keeps
// its bounds and holds no boundary.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "serving/files/multipart_form.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace deepinfer::serving;
  const auto require = [](bool condition) {
    if (!condition) std::abort();
  };
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t line = bytes.find('\n');
  const std::string_view body = line == bytes.npos ? std::string_view() : bytes.substr(line + 1);
  const auto form = parse_multipart_form(bytes.substr(0, line), body);
  if (!form.ok()) return 0;
  require(form->size() <= kMostFormParts);
  for (const FormPart& part : *form) {
    require(!part.name.empty() && part.name.size() <= kMostFormNameBytes);
    require(part.content.data() >= body.data() &&
            part.content.data() + part.content.size() <= body.data() + body.size());
  }
  return 0;
}
