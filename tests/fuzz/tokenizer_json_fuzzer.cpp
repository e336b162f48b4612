// Any bytes as a tokenizer.json: an error or a tokenizer whose encoding decodes to the text again, never a crash.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace deepinfer;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = Tokenizer::parse(input, "fuzz");
  if (!tokenizer.ok()) {
    if (tokenizer.status().message().empty()) std::abort();
    return 0;
  }
  // The file itself is as good a text as any.
  const std::string_view text = input.substr(0, 4096);
  std::vector<std::int32_t> ids;
  if (!(*tokenizer)->encode(text, ids).ok()) return 0;
  ids.clear();
  if (!(*tokenizer)->encode_plain(text, ids).ok()) return 0;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= (*tokenizer)->vocabulary() || (*tokenizer)->bytes(id).empty()) std::abort();
  }
  (void)(*tokenizer)->decode(ids);
  return 0;
}
