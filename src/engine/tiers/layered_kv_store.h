// LayeredKvStore: a small fast store above a large slow one, as one.  Records are written to both; what only the lower
// one has is copied up when it is read.  Host memory over disk.
#pragma once

#include <memory>

#include "engine/tiers/kv_store.h"

namespace deepinfer {

class LayeredKvStore final : public KvStore {
 public:
  LayeredKvStore(std::unique_ptr<KvStore> upper, std::unique_ptr<KvStore> lower)
      : upper_(std::move(upper)), lower_(std::move(lower)) {}

  std::optional<KvEntry> find(const KvKey& key) override;
  void get(std::span<KvRead> reads) override;
  // An error where none of the two has taken the records.
  Status put(std::span<const KvWrite> writes) override;
  bool writable() const override { return upper_->writable() || lower_->writable(); }
  // Sums; evictions are those after which a record may be in neither.
  KvStoreStats stats() const override;

 private:
  std::unique_ptr<KvStore> upper_, lower_;
};

}  // namespace deepinfer
