// Checkpoint: all weight files of a model folder as one set of named tensors.  Opened by a model's loader and by
// `deepinfer inspect`; views point into its maps, so it lives as long as the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/name_table.h"
#include "tensor/safetensors.h"
#include "tensor/tensor.h"

namespace deepinfer {

class Checkpoint {
 public:
  // A folder holds either model.safetensors.index.json and the shards that it names, or one model.safetensors.
  // Shard names are plain file names beside the index; every name of the index must be in the shard that it gives, and
  // every tensor of these shards in the index.  Files that the index does not name are not looked at.
  // Errors: kNotFound (no folder, no weights; missing shards are listed), kCorruptFile, kResourceExhausted; no tensor
  // data is read.
  static Result<Checkpoint> open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const std::vector<Safetensors>& shards() const { return shards_; }

  int64_t size() const { return static_cast<int64_t>(entries_.size()); }  // tensors
  uint64_t bytes() const { return bytes_; }                               // of tensor data, without headers
  // Tensors by number, 0 <= i < size(): shard after shard, inside a shard in file order.
  const TensorInfo& info(int64_t i) const;
  const Safetensors& shard_of(int64_t i) const;
  TensorView view(int64_t i) const { return shard_of(i).view(info(i)); }

  std::optional<int64_t> index_of(std::string_view name) const;
  std::optional<TensorView> find(std::string_view name) const;

  // The tensor `name`, which must have exactly this dtype and shape and be aligned for it.  The error names the file,
  // the tensor, what was found and what was expected.
  Result<TensorView> require(std::string_view name, DType dtype, const Shape& shape) const;

 private:
  struct Entry {
    uint32_t shard;
    uint32_t tensor;
  };

  static Result<Checkpoint> open_folder(const std::string& folder);
  Status index_tensors();

  std::string folder_;
  std::vector<Safetensors> shards_;
  std::vector<Entry> entries_;
  NameTable index_;
  uint64_t bytes_ = 0;
};

}  // namespace deepinfer
