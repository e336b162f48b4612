#include "models/deepseek_v41/placed_weights.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "base/available_memory.h"
#include "base/check.h"
#include "models/deepseek_v41/tensors.h"
#include "tensor/file_piece.h"

namespace deepinfer::deepseek_v41 {
namespace {

// Vector loads of kernels and bulk copies ask for no more.
constexpr uint64_t kAlignment = 256;

uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

double gigabytes(uint64_t bytes) {
  return static_cast<double>(bytes) / 1e9;
}

}  // namespace

Result<WeightPlan> WeightPlan::make(const Config& config, const LayerTable& table, const WeightPlacement& placement,
                                    Ops& ops) {
  WeightPlan plan;
  plan.placement_ = placement;
  plan.mapped_ = ops.memory().is_host();
  const auto refuse = [&](std::string_view field, std::string_view value, std::string_view allowed) {
    return invalid_argument(fmt::format("{} is {}, but the backend {} computes in the host's memory; allowed: {}",
                                        field, value, ops.name(), allowed));
  };
  if (plan.mapped_ && placement.experts == ExpertPlacement::kHost)
    return refuse("expert_placement", to_string(placement.experts), "device, or host with backend cuda");
  if (plan.mapped_ && placement.engram == EngramPlacement::kDevice)
    return refuse("engram_placement", to_string(placement.engram), "host, disk, or device with backend cuda");
  for (const ExpectedTensor& tensor : expected_tensors(config, table))
    plan.bytes_[static_cast<size_t>(tensor_use(tensor.name))] += aligned(tensor.bytes());
  return plan;
}

WeightPlace WeightPlan::place_of(TensorUse use) const {
  switch (use) {
    case TensorUse::kOperand:
      return mapped_ ? WeightPlace::kMapped : WeightPlace::kMemory;
    case TensorUse::kExpert:
      if (placement_.experts == ExpertPlacement::kHost) return WeightPlace::kHost;
      return mapped_ ? WeightPlace::kMapped : WeightPlace::kMemory;
    case TensorUse::kEngramTable:
      if (placement_.engram == EngramPlacement::kDevice) return WeightPlace::kMemory;
      return placement_.engram == EngramPlacement::kHost ? WeightPlace::kHost : WeightPlace::kMapped;
    case TensorUse::kPicture:
      break;
  }
  return WeightPlace::kMapped;
}

uint64_t WeightPlan::bytes_at(WeightPlace place) const {
  uint64_t bytes = 0;
  for (const TensorUse use : {TensorUse::kOperand, TensorUse::kExpert, TensorUse::kEngramTable})
    if (place_of(use) == place) bytes += bytes_of(use);
  return bytes;
}

std::vector<PlacedWeights> WeightPlan::kinds() const {
  std::vector<PlacedWeights> kinds;
  for (const auto& [kind, use] : {std::pair<std::string_view, TensorUse>{"weights", TensorUse::kOperand},
                                  {kExpertWeights, TensorUse::kExpert},
                                  {"Engram tables", TensorUse::kEngramTable}})
    if (bytes_of(use) > 0) kinds.push_back({kind, place_of(use), bytes_of(use)});
  return kinds;
}

// The first of the ways that leave the device's memory, the cheapest first; what is left where none is enough.
std::string WeightPlan::fitting_placement(uint64_t free) const {
  WeightPlan other = *this;
  std::string changes;
  const auto change = [&](std::string_view option) {
    changes += fmt::format("{}{}", changes.empty() ? "" : " ", option);
    return other.bytes_at(WeightPlace::kMemory) <= free;
  };
  bool fits = false;
  if (place_of(TensorUse::kEngramTable) == WeightPlace::kMemory && bytes_of(TensorUse::kEngramTable) > 0) {
    other.placement_.engram = EngramPlacement::kDisk;
    fits = change("--engram-placement disk");
  }
  if (!fits && placement_.experts == ExpertPlacement::kDevice) {
    other.placement_.experts = ExpertPlacement::kHost;
    fits = change("--expert-placement host");
  }
  if (changes.empty()) return {};
  return fmt::format("; with {} they take {:.2f} GB{}, and {:.2f} GB of the host's", changes,
                     gigabytes(other.bytes_at(WeightPlace::kMemory)), fits ? "" : " still",
                     gigabytes(other.bytes_at(WeightPlace::kHost)));
}

Status WeightPlan::check_room(Ops& ops) const {
  const uint64_t there = bytes_at(WeightPlace::kMemory), host = bytes_at(WeightPlace::kHost);
  if (const auto room = ops.memory().room(); room && there > room->free)
    return {StatusCode::kResourceExhausted,
            fmt::format("the weights take {:.2f} GB of the GPU's memory; {:.2f} GB are free, of {:.2f} GB that may "
                        "be in use and {:.2f} GB in all{}",
                        gigabytes(there), gigabytes(room->free), gigabytes(room->granted), gigabytes(room->total),
                        fitting_placement(room->free))};
  if (const auto available = host > 0 ? available_memory() : std::nullopt; available && host > *available) {
    const bool experts = place_of(TensorUse::kExpert) == WeightPlace::kHost;
    const bool engram =
        place_of(TensorUse::kEngramTable) == WeightPlace::kHost && bytes_of(TensorUse::kEngramTable) > 0;
    return {
        StatusCode::kResourceExhausted,
        fmt::format("{}{}{} take {:.2f} GB of the host's memory; {:.2f} GB are available{}", experts ? "experts" : "",
                    experts && engram ? " and " : "", engram ? "Engram tables" : "", gigabytes(host),
                    gigabytes(*available), engram ? "; with --engram-placement disk the tables take none" : "")};
  }
  return {};
}

Result<WeightRooms> WeightRooms::allocate(const WeightPlan& plan, Ops& ops) {
  DI_RETURN_IF_ERROR(plan.check_room(ops));
  WeightRooms rooms;
  rooms.plan_ = plan;
  DI_ASSIGN_OR_RETURN(rooms.memory_, Buffer::allocate(plan.bytes_at(WeightPlace::kMemory), ops.memory()));
  DI_ASSIGN_OR_RETURN(rooms.host_, Buffer::allocate(plan.bytes_at(WeightPlace::kHost), ops.reachable_host_memory()));
  return rooms;
}

Result<Weights> WeightRooms::fill(const Config& config, const LayerTable& table, const Checkpoint& checkpoint,
                                  Ops& ops) {
  struct Room {
    Buffer& buffer;
    std::vector<FilePiece> pieces;
    uint64_t used = 0;
  };
  Room memory{memory_, {}}, host{host_, {}};
  Weights weights =
      visit_tensors(config, table, [&](std::string_view name, DType dtype, const Shape& shape) -> const void* {
        const TensorUse use = tensor_use(name);
        if (use == TensorUse::kPicture) return nullptr;
        const std::string spelled = stored_name(checkpoint, name);
        const TensorView stored = checkpoint.require(spelled, dtype, shape).value();
        const WeightPlace place = plan_.place_of(use);
        if (place == WeightPlace::kMapped) return stored.data;
        Room& room = place == WeightPlace::kHost ? host : memory;
        DI_CHECK(room.used + stored.bytes() <= room.buffer.size(), "the room holds the tensors that it was made for");
        std::byte* const to = room.buffer.data() + room.used;
        const MappedFile& file = checkpoint.shard_of(checkpoint.index_of(spelled).value()).file();
        room.pieces.push_back({&file, static_cast<uint64_t>(stored.data - file.data()), stored.bytes(), to});
        room.used += aligned(stored.bytes());
        return to;
      });
  for (EngramWeights& engram : weights.engrams)
    engram.table.reachable = plan_.place_of(TensorUse::kEngramTable) != WeightPlace::kMapped;
  DI_RETURN_IF_ERROR(ops.memory().load(memory.pieces));
  DI_RETURN_IF_ERROR(ops.reachable_host_memory().load(host.pieces));
  return weights;
}

}  // namespace deepinfer::deepseek_v41
