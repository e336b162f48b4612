// StreamDecoder: turns tokens into text as they arrive without ever tearing a character.
// One per answer that is being streamed; used by the output parser and `deepinfer run`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace deepinfer {

class Tokenizer;

// Holds back the bytes of a character whose end has not come yet (at most 3).  Bytes that cannot become a character
// turn into U+FFFD, one for each maximal bad sequence (WHATWG).  Whatever the chunking, the joined results of push()
// and the final finish() equal Tokenizer::decode of all ids.
class StreamDecoder {
 public:
  // The tokenizer must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  // The text that can be released after this token; possibly empty.
  std::string push(int32_t id);
  // The same for raw bytes.
  std::string push_bytes(std::string_view bytes);
  // The end of the answer: U+FFFD for a started character, else empty.  The decoder may be used again afterwards.
  std::string finish();
  // Bytes held back at the moment.
  std::string_view pending() const { return pending_; }

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;
};

}  // namespace deepinfer
