// Safetensors: one weight file, mapped and fully checked before any of its sizes is trusted.  Checkpoint (checkpoint.h)
// is what models use; this is the layer below.
//
// Accepted: 8 bytes of header length N <= 100,000,000, N bytes of JSON that begin with '{' (spaces may follow the
// object), tensor data.  Every tensor has exactly dtype, shape and data_offsets; its bytes are exactly those its shape
// needs, and all ranges together cover the data without hole or overlap.  Duplicate or unknown keys, unknown dtypes,
// more than Shape::kMaxRank dimensions and anything else are kCorruptFile; the message names the tensor, the rule and
// the offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tensor/mapped_file.h"
#include "tensor/name_table.h"
#include "tensor/tensor.h"

namespace deepinfer {

inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

struct TensorInfo {
  std::string_view name;  // points into its SafetensorsHeader
  DType dtype = DType::kU8;
  Shape shape;
  uint64_t begin = 0;  // bytes from the start of the data section
  uint64_t end = 0;
};

struct SafetensorsHeader {
  uint64_t data_start = 0;                                    // bytes from the start of the file
  std::vector<TensorInfo> tensors;                            // by ascending begin
  std::vector<std::pair<std::string, std::string>> metadata;  // __metadata__, in file order
  std::unique_ptr<char[]> names;                              // what TensorInfo::name points into
  NameTable index;                                            // name to position in tensors

  const TensorInfo* find(std::string_view name) const;  // nullptr when there is none
};

// 8 + the header length, once that has been checked; file_start: at least min(file_size, 8) bytes.
Result<uint64_t> safetensors_header_end(std::span<const std::byte> file_start, uint64_t file_size);

// Checks everything that can be checked without the data.  file_start: the first bytes of the file, at least
// min(file_size, 8 + header length).  A pure function: tests and the fuzzer need no file.
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> file_start, uint64_t file_size);

class Safetensors {
 public:
  // Messages begin with the path.  Reads the header only.
  static Result<Safetensors> open(const std::string& path);

  const MappedFile& file() const { return file_; }
  const SafetensorsHeader& header() const { return header_; }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  TensorView view(const TensorInfo& tensor) const {
    return {file_.data() + header_.data_start + tensor.begin, tensor.dtype, tensor.shape};
  }
  std::optional<TensorView> find(std::string_view name) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
};

}  // namespace deepinfer
