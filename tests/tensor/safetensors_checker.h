// A second, independent reading of the safetensors rules for tests and the fuzzer: slow, obvious, on another JSON
// parser and with 128-bit arithmetic.  It shares no code with src/tensor/safetensors_header.cpp but the names of the
// dtypes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tensor/safetensors.h"

namespace deepinfer {

struct CheckedTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

inline std::optional<uint64_t> checked_size(const nlohmann::json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    return number <= INT64_MAX ? std::optional(number) : std::nullopt;
  }
  const int64_t number = value.get<int64_t>();
  return number >= 0 ? std::optional(static_cast<uint64_t>(number)) : std::nullopt;
}

inline std::optional<CheckedTensor> checked_tensor(const nlohmann::json& value, uint64_t data_bytes) {
  static const std::map<std::string, int> kBits = {
      {"BOOL", 8}, {"U8", 8},   {"I8", 8},   {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8},
      {"F4", 4},   {"I16", 16}, {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},
      {"U32", 32}, {"F32", 32}, {"I64", 64}, {"U64", 64},    {"F64", 64}};
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets")) {
    return std::nullopt;
  }
  const auto& dtype = value["dtype"];
  const auto& shape = value["shape"];
  const auto& offsets = value["data_offsets"];
  if (!dtype.is_string() || kBits.count(dtype.get<std::string>()) == 0) return std::nullopt;
  if (!shape.is_array() || shape.size() > 8 || !offsets.is_array() || offsets.size() != 2) return std::nullopt;
  CheckedTensor tensor;
  tensor.dtype = dtype.get<std::string>();
  unsigned __int128 elements = 1;
  for (const auto& dim : shape) {
    const std::optional<uint64_t> size = checked_size(dim);
    if (!size.has_value()) return std::nullopt;
    elements *= *size;
    if (elements > INT64_MAX) return std::nullopt;
    tensor.shape.push_back(static_cast<int64_t>(*size));
  }
  const std::optional<uint64_t> begin = checked_size(offsets[0]);
  const std::optional<uint64_t> end = checked_size(offsets[1]);
  if (!begin.has_value() || !end.has_value() || *begin > *end || *end > data_bytes) return std::nullopt;
  if ((*end - *begin) * static_cast<unsigned __int128>(8) != elements * static_cast<unsigned>(kBits.at(tensor.dtype))) {
    return std::nullopt;
  }
  tensor.begin = *begin;
  tensor.end = *end;
  return tensor;
}

// The tensors by name if the file keeps every rule, otherwise nothing.
inline std::optional<std::map<std::string, CheckedTensor>> checked_header(std::span<const std::byte> start,
                                                                          uint64_t file_size) {
  if (file_size < 8 || start.size() < 8) return std::nullopt;
  uint64_t length = 0;
  std::memcpy(&length, start.data(), 8);  // little-endian, as this project's only machines are
  if (length > 100'000'000 || length > file_size - 8 || start.size() - 8 < length || length == 0) return std::nullopt;
  const char* text = reinterpret_cast<const char*>(start.data()) + 8;
  if (text[0] != '{') return std::nullopt;
  if (std::memchr(text, 0, length) != nullptr) return std::nullopt;  // nlohmann takes it for the end of the text
  bool duplicate = false;
  std::vector<std::set<std::string>> keys;
  const auto on_event = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (event == nlohmann::json::parse_event_t::object_start) keys.emplace_back();
    if (event == nlohmann::json::parse_event_t::object_end) keys.pop_back();
    if (event == nlohmann::json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      duplicate = true;
    }
    return true;
  };
  const nlohmann::json root = nlohmann::json::parse(text, text + length, on_event, /*allow_exceptions=*/false);
  if (!root.is_object() || duplicate) return std::nullopt;

  const uint64_t data_bytes = file_size - 8 - length;
  std::map<std::string, CheckedTensor> tensors;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") {
      if (!value.is_object()) return std::nullopt;
      for (const auto& entry : value) {
        if (!entry.is_string()) return std::nullopt;
      }
      continue;
    }
    const std::optional<CheckedTensor> tensor = checked_tensor(value, data_bytes);
    if (!tensor.has_value()) return std::nullopt;
    tensors[name] = *tensor;
    ranges.emplace_back(tensor->begin, tensor->end);
  }
  std::sort(ranges.begin(), ranges.end());
  uint64_t covered = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != covered) return std::nullopt;
    covered = end;
  }
  return covered == data_bytes ? std::optional(tensors) : std::nullopt;
}

// Whether the reader and this checker agree on a file, also in what they found.  Returns the disagreement, or "".
inline std::string disagreement(std::span<const std::byte> start, uint64_t file_size) {
  const Result<SafetensorsHeader> header = parse_safetensors_header(start, file_size);
  const auto expected = checked_header(start, file_size);
  if (header.ok() != expected.has_value()) {
    return header.ok() ? "accepted against the rules" : "refused within the rules: " + header.status().message();
  }
  if (!header.ok()) return header.status().message().empty() ? "refused without a message" : "";
  if (header->tensors.size() != expected->size()) return "another number of tensors";
  for (const TensorInfo& tensor : header->tensors) {
    const auto found = expected->find(std::string(tensor.name));
    if (found == expected->end()) return "a tensor that the file does not have";
    const CheckedTensor& other = found->second;
    if (to_string(tensor.dtype) != other.dtype || tensor.begin != other.begin || tensor.end != other.end ||
        !std::ranges::equal(tensor.shape.dims(), other.shape)) {
      return "tensor " + other.dtype + " read differently";
    }
    if (header->find(tensor.name) != &tensor) return "a tensor that find does not find";
  }
  return "";
}

}  // namespace deepinfer
