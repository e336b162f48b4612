#include "tensor/safetensors.h"

#include <algorithm>

#include "base/out_of_memory.h"

namespace deepinfer {
namespace {

Result<SafetensorsHeader> read_header(const MappedFile& file) {
  // The header is copied, not read through the map: what has been checked cannot change afterwards.
  std::vector<std::byte> start(std::min<uint64_t>(file.size(), 8));
  DI_RETURN_IF_ERROR(file.copy(0, start));
  const Result<uint64_t> end = safetensors_header_end(start, file.size());
  if (!end.ok()) return end.status().with_context(file.path());
  start.resize(*end);
  DI_RETURN_IF_ERROR(file.copy(0, start));
  Result<SafetensorsHeader> header = parse_safetensors_header(start, file.size());
  if (!header.ok()) return header.status().with_context(file.path());
  return header;
}

}  // namespace

Result<Safetensors> Safetensors::open(const std::string& path) {
  return or_out_of_memory([&] { return "the header of " + path; },
                          [&]() -> Result<Safetensors> {
                            Safetensors result;
                            DI_ASSIGN_OR_RETURN(result.file_, MappedFile::open(path));
                            DI_ASSIGN_OR_RETURN(result.header_, read_header(result.file_));
                            return result;
                          });
}

std::optional<TensorView> Safetensors::find(std::string_view name) const {
  const TensorInfo* tensor = header_.find(name);
  if (tensor == nullptr) return std::nullopt;
  return view(*tensor);
}

}  // namespace deepinfer
