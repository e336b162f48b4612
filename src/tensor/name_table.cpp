#include "tensor/name_table.h"

#include <sys/random.h>

#include <bit>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace deepinfer {
namespace {

uint64_t process_seed() {
  static const uint64_t seed = [] {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) {
      random = reinterpret_cast<uintptr_t>(&random);  // still differs from run to run
    }
    return random;
  }();
  return seed;
}

uint64_t hash(std::string_view name) {
  return XXH3_64bits_withSeed(name.data(), name.size(), process_seed());
}

}  // namespace

NameTable::NameTable(size_t expected) {
  if (expected > 0) places_.resize(std::bit_ceil(2 * expected));
}

std::optional<uint32_t> NameTable::insert(std::string_view name, uint32_t position, NameOf name_of) {
  if (2 * (used_ + 1) > places_.size()) grow(name_of);
  const uint64_t key = hash(name);
  const uint32_t tag = static_cast<uint32_t>(key >> 32);
  const size_t mask = places_.size() - 1;
  size_t i = key & mask;
  for (; places_[i].position != 0; i = (i + 1) & mask) {
    const uint32_t other = places_[i].position - 1;
    if (places_[i].tag == tag && name_of(other) == name) return other;
  }
  places_[i] = {tag, position + 1};
  ++used_;
  return std::nullopt;
}

std::optional<uint32_t> NameTable::find(std::string_view name, NameOf name_of) const {
  if (places_.empty()) return std::nullopt;
  const uint64_t key = hash(name);
  const uint32_t tag = static_cast<uint32_t>(key >> 32);
  const size_t mask = places_.size() - 1;
  for (size_t i = key & mask; places_[i].position != 0; i = (i + 1) & mask) {
    const uint32_t position = places_[i].position - 1;
    if (places_[i].tag == tag && name_of(position) == name) return position;
  }
  return std::nullopt;
}

void NameTable::grow(NameOf name_of) {
  std::vector<Place> old(places_.empty() ? 16 : 2 * places_.size());
  old.swap(places_);
  const size_t mask = places_.size() - 1;
  for (const Place& place : old) {
    if (place.position == 0) continue;
    size_t i = hash(name_of(place.position - 1)) & mask;
    while (places_[i].position != 0) i = (i + 1) & mask;
    places_[i] = place;
  }
}

}  // namespace deepinfer
