#include "tensor/checkpoint_index.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "tensor/mapped_file.h"
#include "tensor/name_table.h"
#include "tensor/quoted_name.h"
#include "tensor/strict_json.h"

namespace deepinfer {
namespace {

namespace dom = simdjson::dom;

// A file beside the index and nothing else: no folder, no hidden file, no control character.
bool is_plain_shard_name(std::string_view name) {
  constexpr std::string_view kSuffix = ".safetensors";
  if (name.size() <= kSuffix.size() || name.size() > 255 || !name.ends_with(kSuffix) || name[0] == '.') return false;
  return std::none_of(name.begin(), name.end(), [](char c) {
    return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
}

Result<dom::object> find_weight_map(dom::object root) {
  std::optional<dom::element> weight_map;
  NameTable seen;
  std::vector<std::string_view> keys;
  for (const dom::key_value_pair field : root) {
    keys.push_back(field.key);
    const auto key_of = [&](uint32_t i) { return keys[i]; };
    if (seen.insert(field.key, static_cast<uint32_t>(keys.size() - 1), key_of).has_value()) {
      return corrupt_file("duplicate key " + quoted_name(field.key));
    }
    if (field.key == "weight_map") weight_map = field.value;
  }
  if (!weight_map.has_value()) return corrupt_file("no weight_map");
  dom::object map;
  if (weight_map->get_object().get(map)) {
    return corrupt_file(std::string("weight_map must be an object, not ") + kind_of(*weight_map));
  }
  return map;
}

// Shards are numbered as they first appear; sorted names make the order of the checkpoint independent of the map's.
void sort_shards(CheckpointIndex& index) {
  std::vector<uint32_t> order(index.shards.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return index.shards[a] < index.shards[b]; });
  std::vector<uint32_t> place(order.size());
  std::vector<std::string> sorted(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    sorted[i] = std::move(index.shards[order[i]]);
  }
  index.shards = std::move(sorted);
  for (CheckpointIndex::Entry& entry : index.entries) entry.shard = place[entry.shard];
}

}  // namespace

Result<CheckpointIndex> parse_checkpoint_index(std::span<const std::byte> text) {
  StrictJson json;
  DI_ASSIGN_OR_RETURN(const dom::element root, json.parse(text, 0));
  dom::object fields;
  if (root.get_object().get(fields)) return corrupt_file(std::string("must be an object, not ") + kind_of(root));
  DI_ASSIGN_OR_RETURN(const dom::object weight_map, find_weight_map(fields));

  CheckpointIndex index;
  NameTable shard_numbers;
  size_t name_bytes = 0;
  for (const dom::key_value_pair field : weight_map) {
    std::string_view shard;
    if (field.value.get_string().get(shard)) {
      return corrupt_file("weight_map: the file of tensor " + quoted_name(field.key) + " must be a string, not " +
                          kind_of(field.value));
    }
    const auto shard_of = [&](uint32_t i) -> std::string_view { return index.shards[i]; };
    std::optional<uint32_t> number = shard_numbers.find(shard, shard_of);
    if (!number.has_value()) {
      if (!is_plain_shard_name(shard)) {
        return corrupt_file("weight_map: tensor " + quoted_name(field.key) + " lies in " + quoted_name(shard) +
                            ", which is not a plain file name ending in .safetensors");
      }
      if (index.shards.size() == kMaxMappedFiles) {
        return corrupt_file("weight_map: more than " + std::to_string(kMaxMappedFiles) + " files");
      }
      number = static_cast<uint32_t>(index.shards.size());
      index.shards.emplace_back(shard);
      shard_numbers.insert(shard, *number, shard_of);
    }
    index.entries.push_back({field.key, *number});
    name_bytes += field.key.size();
  }
  if (index.entries.empty()) return corrupt_file("weight_map names no tensor");
  index.names = std::make_unique<char[]>(name_bytes);
  char* place = index.names.get();
  for (CheckpointIndex::Entry& entry : index.entries) {
    std::memcpy(place, entry.name.data(), entry.name.size());
    entry.name = {place, entry.name.size()};
    place += entry.name.size();
  }
  sort_shards(index);
  return index;
}

}  // namespace deepinfer
