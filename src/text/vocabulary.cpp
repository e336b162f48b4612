#include "text/vocabulary.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace deepinfer {
namespace {
std::uint64_t hash_of(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}
}  // namespace

void Vocabulary::reserve(std::size_t tokens) {
  ranges_.reserve(tokens);
  arena_.reserve(8 * tokens);
  grow(std::bit_ceil(2 * tokens + 16));
}

std::size_t Vocabulary::slot_of(std::uint64_t hash, std::string_view bytes) const {
  std::size_t slot = hash & (slots_.size() - 1);
  for (; slots_[slot].id >= 0; slot = (slot + 1) & (slots_.size() - 1)) {
    const Slot& s = slots_[slot];
    if (s.hash == static_cast<std::uint32_t>(hash >> 32) &&
        std::string_view(arena_).substr(s.range.begin, s.range.length) == bytes) {
      break;
    }
  }
  return slot;
}

void Vocabulary::grow(std::size_t count) {
  std::vector<Slot> old(std::max(count, slots_.size()));
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    const std::string_view bytes = std::string_view(arena_).substr(slot.range.begin, slot.range.length);
    slots_[slot_of(hash_of(bytes), bytes)] = slot;
  }
}

Vocabulary::Range Vocabulary::store(std::int32_t id, std::string_view bytes) {
  DI_CHECK(id >= 0, "a token id is not negative");
  const auto index = static_cast<std::size_t>(id);
  if (index >= ranges_.size()) ranges_.resize(index + 1);
  DI_CHECK(arena_.size() + bytes.size() <= UINT32_MAX, "more than 4 GiB of token bytes");
  ranges_[index] = {static_cast<std::uint32_t>(arena_.size()), static_cast<std::uint32_t>(bytes.size())};
  arena_.append(bytes);
  return ranges_[index];
}

bool Vocabulary::add(std::int32_t id, std::string_view bytes) {
  if (2 * (used_ + 1) > slots_.size()) grow(std::max<std::size_t>(16, 2 * slots_.size()));
  const std::uint64_t hash = hash_of(bytes);
  const std::size_t slot = slot_of(hash, bytes);
  if (slots_[slot].id >= 0 || !this->bytes(id).empty()) return false;
  slots_[slot] = {static_cast<std::uint32_t>(hash >> 32), id, store(id, bytes)};
  ++used_;
  return true;
}

void Vocabulary::set_spelling(std::int32_t id, std::string_view spelling) {
  store(id, spelling);
}

std::int32_t Vocabulary::find(std::string_view bytes) const {
  return slots_.empty() ? -1 : slots_[slot_of(hash_of(bytes), bytes)].id;
}

}  // namespace deepinfer
