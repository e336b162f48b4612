#include "grammar/mask_memory.h"

#include <algorithm>
#include <utility>

namespace deepinfer {
namespace {

std::string_view bytes_of(std::span<const int32_t> key) {
  return {reinterpret_cast<const char*>(key.data()), key.size_bytes()};
}

constexpr size_t kFewWords = 16;  // one of so many is not zero, at most

}  // namespace

MaskMemory::Words::Words(std::span<const uint32_t> mask) {
  const size_t zeros = static_cast<size_t>(std::count(mask.begin(), mask.end(), 0u));
  const size_t others = mask.size() - zeros;
  if (others == 0 || others > mask.size() / kFewWords || mask.size() > 0x10000) {
    words.assign(mask.begin(), mask.end());
    return;
  }
  places.reserve(others);
  words.reserve(others);
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    places.push_back(static_cast<uint16_t>(i));
    words.push_back(mask[i]);
  }
}

void MaskMemory::Words::copy_to(std::span<uint32_t> mask) const {
  if (places.empty()) {
    std::copy(words.begin(), words.end(), mask.begin());
    return;
  }
  std::fill(mask.begin(), mask.end(), 0u);
  for (size_t i = 0; i < places.size(); ++i) mask[places[i]] = words[i];
}

bool MaskMemory::find(std::span<const int32_t> key, std::span<uint32_t> mask) {
  std::shared_ptr<const Words> known;
  {
    const std::lock_guard lock(mutex_);
    const auto place = places_.find(bytes_of(key));
    if (place == places_.end()) {
      ++stats_.misses;
      return false;
    }
    ++stats_.hits;
    entries_.splice(entries_.begin(), entries_, place->second);
    known = place->second->mask;
  }
  known->copy_to(mask);
  return true;
}

void MaskMemory::keep(std::span<const int32_t> key, std::span<const uint32_t> mask) {
  std::list<Entry> fresh(1);
  fresh.front().key = bytes_of(key);
  fresh.front().mask = std::make_shared<const Words>(mask);
  std::list<Entry> gone;  // freed without the lock
  const std::lock_guard lock(mutex_);
  if (places_.contains(fresh.front().key)) return;  // of another thread, meanwhile
  stats_.bytes += fresh.front().bytes();
  entries_.splice(entries_.begin(), fresh);
  places_.emplace(entries_.front().key, entries_.begin());
  while (stats_.bytes > most_bytes_) {
    stats_.bytes -= entries_.back().bytes();
    places_.erase(entries_.back().key);
    gone.splice(gone.begin(), entries_, std::prev(entries_.end()));
  }
  stats_.masks = static_cast<int64_t>(entries_.size());
}

MaskMemory::Stats MaskMemory::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace deepinfer
