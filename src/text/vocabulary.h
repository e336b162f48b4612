// Vocabulary: the bytes that each token id stands for, and the id of given bytes.
// Filled by read_tokenizer_json(), owned by Tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer {

class Vocabulary {
 public:
  // Room for about this many ordinary tokens.
  void reserve(std::size_t tokens);

  // An ordinary token: its raw bytes are found by find().  False when these bytes or this id are taken.  id >= 0.
  bool add(std::int32_t id, std::string_view bytes);
  // A token that no ordinary text becomes; takes the place of an ordinary token's bytes at this id.
  void set_spelling(std::int32_t id, std::string_view spelling);

  // The ordinary token of these bytes, or -1.
  std::int32_t find(std::string_view bytes) const;
  // Empty for an id that stands for nothing.
  std::string_view bytes(std::int32_t id) const {
    if (static_cast<std::uint32_t>(id) >= ranges_.size()) return {};
    const Range range = ranges_[static_cast<std::size_t>(id)];
    return std::string_view(arena_).substr(range.begin, range.length);
  }
  // One more than the largest id.
  std::int32_t size() const { return static_cast<std::int32_t>(ranges_.size()); }

 private:
  struct Range {
    std::uint32_t begin = 0;
    std::uint32_t length = 0;
  };
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t id = -1;
    Range range;
  };

  std::size_t slot_of(std::uint64_t hash, std::string_view bytes) const;
  void grow(std::size_t slots);
  Range store(std::int32_t id, std::string_view bytes);

  std::string arena_;
  std::vector<Range> ranges_;  // [id]
  std::vector<Slot> slots_;    // open addressing by hash, a power of two, at most half full
  std::size_t used_ = 0;
};

}  // namespace deepinfer
