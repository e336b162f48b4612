#include <algorithm>
#include <cstring>
#include <limits>

#include "tensor/quoted_name.h"
#include "tensor/safetensors.h"
#include "tensor/strict_json.h"

namespace deepinfer {
namespace {

namespace dom = simdjson::dom;

constexpr uint64_t kLengthBytes = 8;

std::string range_text(uint64_t begin, uint64_t end) {
  std::string text("[");
  text.append(std::to_string(begin)).append(", ").append(std::to_string(end)).append("]");
  return text;
}

// A non-negative integer up to 2^63 - 1; `what` is "shape[1]".
Result<int64_t> read_size(dom::element value, const std::string& what) {
  int64_t number = 0;
  if (value.type() == dom::element_type::UINT64) return corrupt_file(what + " is above 2^63 - 1");
  if (value.type() != dom::element_type::INT64 || value.get_int64().get(number)) {
    return corrupt_file(what + " must be a non-negative integer, not " + kind_of(value));
  }
  if (number < 0) return corrupt_file(what + " is " + std::to_string(number) + ", negative");
  return number;
}

Result<dom::array> read_array(dom::element value, const char* what) {
  dom::array array;
  if (value.get_array().get(array)) {
    return corrupt_file(std::string(what) + " must be an array, not " + kind_of(value));
  }
  return array;
}

Result<DType> read_dtype(dom::element value) {
  std::string_view name;
  if (value.get_string().get(name)) return corrupt_file(std::string("dtype must be a string, not ") + kind_of(value));
  const std::optional<DType> dtype = dtype_from_string(name);
  if (!dtype.has_value()) return corrupt_file("unknown dtype " + quoted_name(name));
  return *dtype;
}

Result<Shape> read_shape(dom::element value) {
  DI_ASSIGN_OR_RETURN(const dom::array array, read_array(value, "shape"));
  std::array<int64_t, Shape::kMaxRank> dims{};
  size_t rank = 0;
  int64_t elements = 1;
  for (const dom::element element : array) {
    if (rank == dims.size()) {
      return corrupt_file("shape has " + std::to_string(array.size()) + " dimensions, at most " +
                          std::to_string(dims.size()) + " are supported");
    }
    DI_ASSIGN_OR_RETURN(dims[rank], read_size(element, "shape[" + std::to_string(rank) + "]"));
    if (__builtin_mul_overflow(elements, dims[rank], &elements)) {
      return corrupt_file("the product of the dimensions overflows 2^63");
    }
    ++rank;
  }
  return Shape(std::span<const int64_t>(dims.data(), rank));
}

Status read_offsets(dom::element value, TensorInfo& tensor) {
  DI_ASSIGN_OR_RETURN(const dom::array array, read_array(value, "data_offsets"));
  if (array.size() != 2) {
    return corrupt_file("data_offsets must hold 2 integers, not " + std::to_string(array.size()));
  }
  int64_t offsets[2] = {0, 0};
  size_t count = 0;
  for (const dom::element element : array) {
    DI_ASSIGN_OR_RETURN(offsets[count], read_size(element, "data_offsets[" + std::to_string(count) + "]"));
    ++count;
  }
  tensor.begin = static_cast<uint64_t>(offsets[0]);
  tensor.end = static_cast<uint64_t>(offsets[1]);
  return {};
}

// The rules that concern one tensor alone.
Status check_extent(const TensorInfo& tensor, uint64_t data_bytes) {
  const std::string range = "data_offsets " + range_text(tensor.begin, tensor.end);
  if (tensor.begin > tensor.end) return corrupt_file(range + " begin after their end");
  if (tensor.end > data_bytes) {
    return corrupt_file(range + " reach beyond the " + std::to_string(data_bytes) + " data bytes of the file");
  }
  uint64_t size_in_bits = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(tensor.shape.elements()), static_cast<uint64_t>(bits(tensor.dtype)),
                             &size_in_bits)) {
    return corrupt_file("shape " + to_string(tensor.shape) + " of " + std::string(to_string(tensor.dtype)) +
                        " overflows 2^64 bits");
  }
  const std::string kind = "shape " + to_string(tensor.shape) + " of " + std::string(to_string(tensor.dtype));
  if (size_in_bits % 8 != 0) {
    return corrupt_file(kind + " is " + std::to_string(size_in_bits) + " bits, which do not fill whole bytes");
  }
  if (tensor.end - tensor.begin != size_in_bits / 8) {
    return corrupt_file(range + " hold " + std::to_string(tensor.end - tensor.begin) + " bytes, but " + kind +
                        " needs " + std::to_string(size_in_bits / 8));
  }
  return {};
}

Result<TensorInfo> read_tensor(std::string_view name, dom::element value, uint64_t data_bytes) {
  dom::object fields;
  if (value.get_object().get(fields)) return corrupt_file(std::string("must be an object, not ") + kind_of(value));
  TensorInfo tensor;
  tensor.name = name;
  std::optional<dom::element> dtype, shape, offsets;
  for (const dom::key_value_pair field : fields) {
    std::optional<dom::element>* place = field.key == "dtype"          ? &dtype
                                         : field.key == "shape"        ? &shape
                                         : field.key == "data_offsets" ? &offsets
                                                                       : nullptr;
    if (place == nullptr) return corrupt_file("unknown key " + quoted_name(field.key));
    if (place->has_value()) return corrupt_file("duplicate key " + quoted_name(field.key));
    *place = field.value;
  }
  if (!dtype.has_value()) return corrupt_file("no dtype");
  if (!shape.has_value()) return corrupt_file("no shape");
  if (!offsets.has_value()) return corrupt_file("no data_offsets");
  DI_ASSIGN_OR_RETURN(tensor.dtype, read_dtype(*dtype));
  DI_ASSIGN_OR_RETURN(tensor.shape, read_shape(*shape));
  DI_RETURN_IF_ERROR(read_offsets(*offsets, tensor));
  DI_RETURN_IF_ERROR(check_extent(tensor, data_bytes));
  return tensor;
}

Status read_metadata(dom::element value, std::vector<std::pair<std::string, std::string>>& metadata) {
  dom::object fields;
  if (value.get_object().get(fields)) {
    return corrupt_file(std::string("__metadata__ must be an object, not ") + kind_of(value));
  }
  NameTable seen;
  for (const dom::key_value_pair field : fields) {
    std::string_view text;
    if (field.value.get_string().get(text)) {
      return corrupt_file("__metadata__: the value of " + quoted_name(field.key) + " must be a string, not " +
                          kind_of(field.value));
    }
    metadata.emplace_back(field.key, text);
    const auto key_of = [&](uint32_t i) -> std::string_view { return metadata[i].first; };
    if (seen.insert(field.key, static_cast<uint32_t>(metadata.size() - 1), key_of).has_value()) {
      return corrupt_file("__metadata__: duplicate key " + quoted_name(field.key));
    }
  }
  return {};
}

// Sorted by begin, the ranges must cover the data section without hole or overlap.
Status check_coverage(const std::vector<TensorInfo>& tensors, uint64_t data_bytes) {
  uint64_t covered = 0;
  const TensorInfo* before = nullptr;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin != covered) {
      const std::string neighbour = before == nullptr ? "the start of the data" : "tensor " + quoted_name(before->name);
      return corrupt_file("tensor " + quoted_name(tensor.name) + ": data_offsets " +
                          range_text(tensor.begin, tensor.end) +
                          (tensor.begin < covered ? " overlap " : " leave a hole after ") + neighbour +
                          ", which ends at " + std::to_string(covered));
    }
    covered = tensor.end;
    before = &tensor;
  }
  if (covered != data_bytes) {
    return corrupt_file("the tensors end at data byte " + std::to_string(covered) + ", but the file has " +
                        std::to_string(data_bytes) + " data bytes");
  }
  return {};
}

// Moves the names, which so far lie in the JSON parser, into the header.
void keep_names(SafetensorsHeader& header) {
  size_t bytes = 0;
  for (const TensorInfo& tensor : header.tensors) bytes += tensor.name.size();
  header.names = std::make_unique<char[]>(bytes);
  char* place = header.names.get();
  for (TensorInfo& tensor : header.tensors) {
    std::memcpy(place, tensor.name.data(), tensor.name.size());
    tensor.name = {place, tensor.name.size()};
    place += tensor.name.size();
  }
}

Status read_tensors(dom::object root, uint64_t data_bytes, SafetensorsHeader& header) {
  header.tensors.reserve(root.size());  // at most 2^24 - 1: a hint
  bool metadata_seen = false;
  for (const dom::key_value_pair field : root) {
    if (field.key == "__metadata__") {
      if (metadata_seen) return corrupt_file("duplicate key \"__metadata__\"");
      metadata_seen = true;
      DI_RETURN_IF_ERROR(read_metadata(field.value, header.metadata));
      continue;
    }
    Result<TensorInfo> tensor = read_tensor(field.key, field.value, data_bytes);
    if (!tensor.ok()) return tensor.status().with_context("tensor " + quoted_name(field.key));
    header.tensors.push_back(*tensor);
  }
  // Zero-sized tensors share their begin with a neighbour, so the end decides, too.
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  header.index = NameTable(header.tensors.size());
  const auto name_of = [&](uint32_t i) { return header.tensors[i].name; };
  for (uint32_t i = 0; i < header.tensors.size(); ++i) {
    if (header.index.insert(header.tensors[i].name, i, name_of).has_value()) {
      return corrupt_file("tensor " + quoted_name(header.tensors[i].name) + ": duplicate key");
    }
  }
  return check_coverage(header.tensors, data_bytes);
}

}  // namespace

const TensorInfo* SafetensorsHeader::find(std::string_view name) const {
  const std::optional<uint32_t> position = index.find(name, [this](uint32_t i) { return tensors[i].name; });
  return position.has_value() ? &tensors[*position] : nullptr;
}

Result<uint64_t> safetensors_header_end(std::span<const std::byte> file_start, uint64_t file_size) {
  if (file_size < kLengthBytes || file_start.size() < kLengthBytes) {
    return corrupt_file("header: the file has " + std::to_string(file_size) +
                        " bytes, its header length alone needs 8");
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<uint64_t>(file_start[i]) << (8 * i);
  if (length > kMaxSafetensorsHeaderBytes) {
    return corrupt_file("header: its length at offset 0 is " + std::to_string(length) + ", at most " +
                        std::to_string(kMaxSafetensorsHeaderBytes) + " bytes are allowed");
  }
  if (length > file_size - kLengthBytes) {
    return corrupt_file("header: its length at offset 0 is " + std::to_string(length) + ", but only " +
                        std::to_string(file_size - kLengthBytes) + " bytes follow");
  }
  return kLengthBytes + length;
}

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> file_start, uint64_t file_size) {
  SafetensorsHeader header;
  DI_ASSIGN_OR_RETURN(header.data_start, safetensors_header_end(file_start, file_size));
  if (file_start.size() < header.data_start) {
    return invalid_argument("header: " + std::to_string(header.data_start) + " bytes are needed, " +
                            std::to_string(file_start.size()) + " were given");
  }
  const std::span<const std::byte> text = file_start.subspan(kLengthBytes, header.data_start - kLengthBytes);
  if (text.empty() || text[0] != std::byte{'{'}) {
    return corrupt_file("header: the byte at offset 8 must be '{', the start of a JSON object");
  }
  StrictJson json;
  Result<dom::element> root = json.parse(text, kLengthBytes);
  if (!root.ok()) return root.status().with_context("header");
  dom::object tensors;
  if (root->get_object().get(tensors)) return corrupt_file(std::string("header: must be an object"));
  DI_RETURN_IF_ERROR(read_tensors(tensors, file_size - header.data_start, header));
  keep_names(header);
  return header;
}

}  // namespace deepinfer
