#include "text/stream_decoder.h"

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace deepinfer {

std::string StreamDecoder::push(std::int32_t id) {
  return push_bytes(tokenizer_->bytes(id));
}

std::string StreamDecoder::push_bytes(std::string_view bytes) {
  pending_.append(bytes);
  const std::size_t complete = complete_utf8_prefix(pending_);
  std::string text;
  append_repaired_utf8(std::string_view(pending_).substr(0, complete), text);
  pending_.erase(0, complete);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  append_repaired_utf8(pending_, text);
  pending_.clear();
  return text;
}

}  // namespace deepinfer
