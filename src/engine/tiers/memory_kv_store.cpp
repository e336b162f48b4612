#include "engine/tiers/memory_kv_store.h"

#include <fmt/format.h>

#include <cstring>
#include <iterator>

namespace deepinfer {

std::optional<KvEntry> MemoryKvStore::find(const KvKey& key) {
  const auto found = places_.find(key);
  if (found == places_.end()) return std::nullopt;
  return KvEntry{static_cast<int64_t>(found->second->payload.size()), found->second->note};
}

void MemoryKvStore::get(std::span<KvRead> reads) {
  for (KvRead& read : reads) {
    const auto found = places_.find(read.key);
    read.found = found != places_.end() && found->second->payload.size() == read.payload.size();
    if (!read.found) continue;
    records_.splice(records_.begin(), records_, found->second);
    std::memcpy(read.payload.data(), records_.front().payload.data(), read.payload.size());
    ++stats_.records_read;
    stats_.bytes_read += static_cast<int64_t>(read.payload.size());
  }
}

Status MemoryKvStore::put(std::span<const KvWrite> writes) {
  for (const KvWrite& write : writes) {
    const auto bytes = static_cast<int64_t>(write.payload.size());
    if (bytes > capacity_)
      return {StatusCode::kResourceExhausted, fmt::format("a record of {} bytes; allowed: {}", bytes, capacity_)};
    if (const auto found = places_.find(write.key); found != places_.end()) drop(found->second);
    while (stats_.bytes_held + bytes > capacity_) {
      drop(std::prev(records_.end()));
      ++stats_.evictions;
    }
    Records added;  // whatever throws leaves the store as it is
    added.push_front({write.key, write.note, {write.payload.begin(), write.payload.end()}});
    places_.emplace(write.key, added.begin());
    records_.splice(records_.begin(), added);
    stats_.bytes_held += bytes;
    ++stats_.records_written;
    stats_.bytes_written += bytes;
  }
  return {};
}

void MemoryKvStore::drop(Records::iterator record) {
  stats_.bytes_held -= static_cast<int64_t>(record->payload.size());
  places_.erase(record->key);
  records_.erase(record);
}

}  // namespace deepinfer
