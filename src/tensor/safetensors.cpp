#include "tensor/safetensors.h"

#include <algorithm>

namespace deepinfer {

Result<Safetensors> Safetensors::open(const std::string& path) {
  Safetensors result;
  DI_ASSIGN_OR_RETURN(result.file_, MappedFile::open(path));
  const MappedFile& file = result.file_;

  // The header is copied, not read through the map: what has been checked cannot change afterwards.
  std::vector<std::byte> start(std::min<uint64_t>(file.size(), 8));
  DI_RETURN_IF_ERROR(file.copy(0, start));
  const Result<uint64_t> end = safetensors_header_end(start, file.size());
  if (!end.ok()) return end.status().with_context(path);
  start.resize(*end);
  DI_RETURN_IF_ERROR(file.copy(0, start));
  Result<SafetensorsHeader> header = parse_safetensors_header(start, file.size());
  if (!header.ok()) return header.status().with_context(path);
  result.header_ = std::move(header).value();
  return result;
}

std::optional<TensorView> Safetensors::find(std::string_view name) const {
  const TensorInfo* tensor = header_.find(name);
  if (tensor == nullptr) return std::nullopt;
  return view(*tensor);
}

}  // namespace deepinfer
