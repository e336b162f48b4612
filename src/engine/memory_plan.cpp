#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

namespace deepinfer {
namespace {

std::string_view place_text(WeightPlace place) {
  switch (place) {
    case WeightPlace::kMemory:
      return "in the GPU's memory";
    case WeightPlace::kHost:
      return "in the host's memory, page-locked";
    case WeightPlace::kMapped:
      break;
  }
  return "on disk, mapped";
}

// What to do where the device has too little left; empty where its experts are elsewhere already.
std::string experts_hint(const Model& model) {
  for (const PlacedWeights& weights : model.placed_weights())
    if (weights.kind == kExpertWeights && weights.place == WeightPlace::kMemory)
      return fmt::format("; --expert-placement host moves {} bytes to the host", weights.bytes);
  return {};
}

}  // namespace

Result<int64_t> remaining_cache_bytes(const Model& model, int64_t state_slots, const Memory& memory) {
  const CacheLayout& layout = model.cache_layout();
  const std::optional<MemoryRoom> room = memory.room();
  if (!room)
    return invalid_argument(
        "cache_bytes is 0, all that a device has left, but this backend has no device; allowed: 1 and more");
  const auto slots = static_cast<uint64_t>(state_slots * layout.bytes_per_sequence());
  const uint64_t least = slots + kKeptForGraphs + static_cast<uint64_t>(2 * layout.bytes_per_block());
  if (room->free < least)
    return Status(
        StatusCode::kResourceExhausted,
        fmt::format("weights and scratch memory leave {} bytes of the GPU's memory, of {} that may be in use; "
                    "cache and graphs take {} and more with {} state slots{}",
                    room->free, room->granted, least, state_slots, experts_hint(model)));
  return static_cast<int64_t>(room->free - slots - kKeptForGraphs);
}

Status check_cache_room(const CacheGeometry& cache, const Model& model, const Memory& memory) {
  const CacheLayout& layout = model.cache_layout();
  const std::optional<MemoryRoom> room = memory.room();
  const auto bytes =
      static_cast<uint64_t>(cache.blocks * layout.bytes_per_block() + cache.state_slots * layout.bytes_per_sequence());
  if (!room || bytes + kKeptForGraphs <= room->free) return {};
  return {StatusCode::kResourceExhausted,
          fmt::format("cache and state slots take {} bytes of the GPU's memory, and graphs {}; weights and scratch "
                      "memory leave {}, of {} that may be in use{}",
                      bytes, kKeptForGraphs, room->free, room->granted, experts_hint(model))};
}

std::vector<MemoryPlanLine> model_lines(const Model& model, uint64_t taken, int64_t step_rows) {
  std::vector<MemoryPlanLine> lines;
  uint64_t there = 0;
  for (const PlacedWeights& weights : model.placed_weights()) {
    if (weights.place == WeightPlace::kMemory) there += weights.bytes;
    lines.push_back(
        {std::string(weights.kind), static_cast<int64_t>(weights.bytes), std::string(place_text(weights.place))});
  }
  lines.push_back({"scratch", static_cast<int64_t>(taken - std::min(taken, there)),
                   fmt::format("for steps of {} rows", step_rows)});
  return lines;
}

MemoryPlanLine graphs_line(uint64_t taken) {
  return {"graphs", static_cast<int64_t>(kKeptForGraphs),
          fmt::format("kept free for graphs of steps and the driver; {:.3f} GB of it taken at start",
                      static_cast<double>(taken) / 1e9)};
}

std::vector<MemoryPlanLine> cache_lines(const CacheGeometry& cache, const CacheLayout& layout, int64_t tier_bytes) {
  std::vector<MemoryPlanLine> lines;
  lines.push_back({"cache blocks", cache.blocks * layout.bytes_per_block(),
                   fmt::format("{} blocks of {} tokens, {} bytes each", cache.blocks, layout.tokens_per_block,
                               layout.bytes_per_block())});
  lines.push_back({"state slots", cache.state_slots * layout.bytes_per_sequence(),
                   fmt::format("{} sequences, {} bytes each", cache.state_slots, layout.bytes_per_sequence())});
  if (tier_bytes > 0) lines.push_back({"host tier", tier_bytes, "at most; taken as it fills"});
  return lines;
}

}  // namespace deepinfer
