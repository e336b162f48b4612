// Any bytes as model.safetensors.index.json: no crash, and what is accepted names plain files only.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tensor/checkpoint_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto index = deepinfer::parse_checkpoint_index({reinterpret_cast<const std::byte*>(data), size});
  if (!index.ok()) {
    if (index.status().message().empty()) std::abort();
    return 0;
  }
  if (index->shards.empty() || index->entries.empty()) std::abort();
  for (const std::string& shard : index->shards) {
    if (shard.find_first_of(std::string("/\\\0", 3)) != std::string::npos || shard.front() == '.') std::abort();
  }
  for (const auto& entry : index->entries) {
    if (entry.shard >= index->shards.size()) std::abort();
  }
  return 0;
}
