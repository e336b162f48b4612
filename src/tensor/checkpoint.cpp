#include "tensor/checkpoint.h"

#include <filesystem>
#include <span>
#include <system_error>

#include "base/bounded_file.h"
#include "base/out_of_memory.h"
#include "tensor/checkpoint_index.h"
#include "tensor/quoted_name.h"

namespace deepinfer {
namespace {

constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr char kSingleName[] = "model.safetensors";
constexpr uint64_t kMaxIndexBytes = 256'000'000;  // the released checkpoint's has 9 million
constexpr size_t kNamesInMessage = 8;

// Collects what is wrong of one kind; a message lists the first few and counts the rest.
class NameList {
 public:
  void add(std::string_view name) {
    if (count_++ >= kNamesInMessage) return;
    if (!text_.empty()) text_ += ", ";
    text_ += quoted_name(name);
  }
  bool empty() const { return count_ == 0; }
  size_t count() const { return count_; }
  std::string text() const {
    return count_ <= kNamesInMessage ? text_ : text_ + " and " + std::to_string(count_ - kNamesInMessage) + " more";
  }

 private:
  std::string text_;
  size_t count_ = 0;
};

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

Result<CheckpointIndex> read_index(const std::string& path) {
  DI_ASSIGN_OR_RETURN(const std::string text, read_bounded_file(path, kMaxIndexBytes));
  Result<CheckpointIndex> index = parse_checkpoint_index(std::as_bytes(std::span(text)));
  if (!index.ok()) return index.status().with_context(path);
  return index;
}

Status check_shards_exist(const std::string& folder, const std::vector<std::string>& shards) {
  NameList missing;
  for (const std::string& shard : shards) {
    if (!exists(folder + "/" + shard)) missing.add(shard);
  }
  if (missing.empty()) return {};
  return not_found(folder + ": " + std::to_string(missing.count()) + " of the " + std::to_string(shards.size()) +
                   " weight files of " + kIndexName + " are missing: " + missing.text());
}

// Every name of the index must be a tensor of the shard it gives, and every tensor must be in the index.
Status check_against_index(const Checkpoint& checkpoint, const CheckpointIndex& index) {
  const std::string path = checkpoint.folder() + "/" + kIndexName;
  std::vector<bool> named(static_cast<size_t>(checkpoint.size()));
  NameList absent;
  for (const CheckpointIndex::Entry& entry : index.entries) {
    const std::optional<int64_t> i = checkpoint.index_of(entry.name);
    const std::string& shard = index.shards[entry.shard];
    if (!i.has_value() || &checkpoint.shard_of(*i) != &checkpoint.shards()[entry.shard]) {
      absent.add(std::string(entry.name) + " in " + shard);
      continue;
    }
    if (named[static_cast<size_t>(*i)]) {
      return corrupt_file(path + ": weight_map: duplicate key " + quoted_name(entry.name));
    }
    named[static_cast<size_t>(*i)] = true;
  }
  if (!absent.empty()) {
    return corrupt_file(path + ": " + std::to_string(absent.count()) +
                        " tensors are not in the file that weight_map gives: " + absent.text());
  }
  NameList orphans;
  for (int64_t i = 0; i < checkpoint.size(); ++i) {
    if (!named[static_cast<size_t>(i)]) orphans.add(checkpoint.info(i).name);
  }
  if (!orphans.empty()) {
    return corrupt_file(path + ": weight_map lacks " + std::to_string(orphans.count()) +
                        " tensors of the weight files: " + orphans.text());
  }
  return {};
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& folder) {
  return or_out_of_memory([&] { return "the tensor table of " + folder; }, [&] { return open_folder(folder); });
}

Result<Checkpoint> Checkpoint::open_folder(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return not_found(folder + ": not a folder");
  const std::string index_path = folder + "/" + kIndexName;
  const bool has_index = exists(index_path);
  const bool has_single = exists(folder + "/" + kSingleName);
  if (!has_index && !has_single) {
    return not_found(folder + ": neither " + kIndexName + " nor " + kSingleName + " is there");
  }

  CheckpointIndex index;
  if (has_index) {
    DI_ASSIGN_OR_RETURN(index, read_index(index_path));
    if (has_single && index.shards != std::vector<std::string>{kSingleName}) {
      return corrupt_file(folder + ": both " + kIndexName + " and " + kSingleName + " are there; remove one");
    }
    DI_RETURN_IF_ERROR(check_shards_exist(folder, index.shards));
  } else {
    index.shards.push_back(kSingleName);
  }
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  checkpoint.shards_.reserve(index.shards.size());
  for (const std::string& shard : index.shards) {
    DI_ASSIGN_OR_RETURN(Safetensors file, Safetensors::open(folder + "/" + shard));
    checkpoint.shards_.push_back(std::move(file));
  }
  DI_RETURN_IF_ERROR(checkpoint.index_tensors());
  if (has_index) {
    DI_RETURN_IF_ERROR(check_against_index(checkpoint, index));
  }
  return checkpoint;
}

Status Checkpoint::index_tensors() {
  size_t count = 0;
  for (const Safetensors& shard : shards_) count += shard.tensors().size();
  entries_.reserve(count);
  index_ = NameTable(count);
  const auto name_of = [this](uint32_t i) { return info(i).name; };
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    const std::vector<TensorInfo>& tensors = shards_[shard].tensors();
    for (uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
      entries_.push_back({shard, tensor});
      const std::optional<uint32_t> other =
          index_.insert(tensors[tensor].name, static_cast<uint32_t>(entries_.size() - 1), name_of);
      if (other.has_value()) {
        return corrupt_file(shards_[shard].file().path() + ": tensor " + quoted_name(tensors[tensor].name) +
                            " is also in " + shard_of(*other).file().path());
      }
      bytes_ += tensors[tensor].end - tensors[tensor].begin;
    }
  }
  return {};
}

const TensorInfo& Checkpoint::info(int64_t i) const {
  const Entry entry = entries_[static_cast<size_t>(i)];
  return shards_[entry.shard].tensors()[entry.tensor];
}

const Safetensors& Checkpoint::shard_of(int64_t i) const {
  return shards_[entries_[static_cast<size_t>(i)].shard];
}

std::optional<int64_t> Checkpoint::index_of(std::string_view name) const {
  return index_.find(name, [this](uint32_t i) { return info(i).name; });
}

std::optional<TensorView> Checkpoint::find(std::string_view name) const {
  const std::optional<int64_t> i = index_of(name);
  if (!i.has_value()) return std::nullopt;
  return view(*i);
}

Result<TensorView> Checkpoint::require(std::string_view name, DType dtype, const Shape& shape) const {
  const std::optional<int64_t> i = index_of(name);
  if (!i.has_value()) return corrupt_file(folder_ + ": tensor " + quoted_name(name) + " is missing");
  const TensorView found = view(*i);
  const std::string place = shard_of(*i).file().path() + ": tensor " + quoted_name(name);
  if (found.dtype != dtype) {
    return corrupt_file(place + ": dtype " + std::string(to_string(found.dtype)) + ", expected " +
                        std::string(to_string(dtype)));
  }
  if (found.shape != shape) {
    return corrupt_file(place + ": shape " + to_string(found.shape) + ", expected " + to_string(shape));
  }
  const size_t element_bytes = static_cast<size_t>(bits(dtype) + 7) / 8;
  if (!found.aligned_to(element_bytes)) {
    return unsupported(place + ": its data begins at file offset " +
                       std::to_string(found.data - shard_of(*i).file().data()) + ", not a multiple of its " +
                       std::to_string(element_bytes) + "-byte elements");
  }
  return found;
}

}  // namespace deepinfer
