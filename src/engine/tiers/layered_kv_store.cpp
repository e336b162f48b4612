#include "engine/tiers/layered_kv_store.h"

#include <vector>

namespace deepinfer {

std::optional<KvEntry> LayeredKvStore::find(const KvKey& key) {
  if (auto entry = upper_->find(key)) return entry;
  return lower_->find(key);
}

void LayeredKvStore::get(std::span<KvRead> reads) {
  upper_->get(reads);
  std::vector<KvRead> missing;
  std::vector<size_t> places;
  for (size_t i = 0; i < reads.size(); ++i) {
    if (reads[i].found) continue;
    missing.push_back(reads[i]);
    places.push_back(i);
  }
  if (missing.empty()) return;
  lower_->get(missing);
  std::vector<KvWrite> up;
  for (size_t i = 0; i < missing.size(); ++i) {
    reads[places[i]].found = missing[i].found;
    if (!missing[i].found) continue;
    if (const auto entry = lower_->find(missing[i].key))
      up.push_back({missing[i].key, entry->note, missing[i].payload});
  }
  // What does not fit up there stays where it is.
  if (!up.empty()) static_cast<void>(upper_->put(up));
}

Status LayeredKvStore::put(std::span<const KvWrite> writes) {
  const Status above = upper_->put(writes);
  const Status below = lower_->writable() ? lower_->put(writes) : above;
  return above.ok() ? above : below;
}

KvStoreStats LayeredKvStore::stats() const {
  const KvStoreStats above = upper_->stats(), below = lower_->stats();
  KvStoreStats sum;
  sum.bytes_held = above.bytes_held + below.bytes_held;
  sum.records_written = above.records_written + below.records_written;
  sum.bytes_written = above.bytes_written + below.bytes_written;
  sum.records_read = above.records_read + below.records_read;
  sum.bytes_read = above.bytes_read + below.bytes_read;
  sum.corrupt = above.corrupt + below.corrupt;
  sum.evictions = below.evictions + (lower_->writable() ? 0 : above.evictions);
  return sum;
}

}  // namespace deepinfer
