// CheckpointIndex: which shard holds which tensor, as model.safetensors.index.json says.  Used by Checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace deepinfer {

struct CheckpointIndex {
  struct Entry {
    std::string_view name;  // points into names
    uint32_t shard;         // position in shards
  };
  std::vector<std::string> shards;  // plain file names, ascending
  std::vector<Entry> entries;       // in the order of the file, names not checked for duplicates
  std::unique_ptr<char[]> names;
};

// json: the whole index file.  kCorruptFile when it is not an object whose weight_map gives a plain file name ending in
// .safetensors for every tensor, when a key of the object appears twice, when it names no tensor, or with more than
// kMaxMappedFiles shards. Other keys (metadata) are not used.  A pure function.
Result<CheckpointIndex> parse_checkpoint_index(std::span<const std::byte> json);

}  // namespace deepinfer
