// Tokenizer: text to token ids and back, by the byte-level BPE of a model's tokenizer.json.
// Owned by a loaded model; called by the chat encoder, the output parser, the command line and the server.
// Thread-safe: every method is const and may be called from any thread.
//
// Nothing is ever added to the text: no begin-of-sentence token, no prefix space.  The post_processor of the file is
// not applied (what Hugging Face calls add_special_tokens=False); the chat encoder spells every special token itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/byte_range.h"

namespace deepinfer {

class Tokenizer {
 public:
  // Reads a tokenizer.json.  Errors of read_bounded_file when it cannot be read, kCorruptFile naming the field when it
  // breaks a rule, kUnsupported naming the field and its value when it asks for a component that is not implemented.
  static Result<std::unique_ptr<Tokenizer>> load(const std::filesystem::path& tokenizer_json);
  // The same from memory; `name` stands for the file in messages.
  static Result<std::unique_ptr<Tokenizer>> parse(std::string_view json, std::string_view name);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // The three encoders append to `ids`.  Text that is not UTF-8 is first repaired: U+FFFD for each maximal bad sequence
  // (WHATWG).  `threads` > 1 lets long texts (from about half a MiB) use that many threads; the ids are the same.
  // They fail only with kResourceExhausted: a text of more than 2^31 bytes, no memory, or a file's own regular
  // expression that exceeds the match limit on this text (never DeepSeek's).  `ids` is then left as it was.

  // Spellings of the added vocabulary become their ids.  For text that the operator wrote, never for a user's.
  Status encode(std::string_view text, std::vector<int32_t>& ids, int threads = 1) const;
  // No added tokens: `<think>` becomes ordinary pieces.  How a user's text is encoded.
  Status encode_plain(std::string_view text, std::vector<int32_t>& ids, int threads = 1) const;
  // A prompt of the chat encoder: each range of `special` is one added token resolved by its spelling; each stretch
  // between them is encoded on its own, as encode_plain does.  Also kInvalidArgument: ranges that are not ascending and
  // inside the text, or whose bytes are no added token.
  Status encode_segments(std::string_view text, std::span<const ByteRange> special, std::vector<int32_t>& ids,
                         int threads = 1) const;

  // Bytes of all tokens joined, special tokens spelled out, then repaired as UTF-8 (U+FFFD for each maximal bad
  // sequence).  Ids that stand for nothing add nothing.  For one token at a time use StreamDecoder.
  std::string decode(std::span<const int32_t> ids) const;
  // The raw bytes that a token stands for, which need not be whole characters; empty for an id that stands for nothing
  // (negative, out of range, or a hole in the vocabulary).  Valid as long as the tokenizer.
  std::string_view bytes(int32_t id) const;
  // The id of an added token's spelling, else of the ordinary token that stands for exactly these bytes.
  std::optional<int32_t> id(std::string_view spelling) const;
  // The id of an added token's spelling only.
  std::optional<int32_t> added_id(std::string_view spelling) const;
  // True for tokens of the added vocabulary (control tokens; their spelling in a user's text is not the token).
  bool is_added(int32_t id) const;
  // True for added tokens that the file marks `special` (Hugging Face drops these when decoding for display).
  bool is_special(int32_t id) const;
  // One more than the largest id.  A model's logits may be wider (padding).
  int32_t vocabulary() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace deepinfer
