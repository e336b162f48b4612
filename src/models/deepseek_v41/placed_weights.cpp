#include "models/deepseek_v41/placed_weights.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "models/deepseek_v41/tensor_names.h"
#include "models/deepseek_v41/tensors.h"
#include "tensor/file_piece.h"

namespace deepinfer::deepseek_v41 {
namespace {

// Vector loads of kernels and bulk copies ask for no more.
constexpr uint64_t kAlignment = 256;

uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Result<Buffer> allocate_weights(const Config& config, const LayerTable& table, Memory& memory) {
  uint64_t bytes = 0;
  for (const ExpectedTensor& tensor : expected_tensors(config, table)) {
    if (tensor_use(tensor.name) == TensorUse::kOperand) bytes += aligned(tensor.bytes());
  }
  if (const auto room = memory.room(); room && bytes > room->free) {
    const auto gigabytes = [](uint64_t count) { return static_cast<double>(count) / 1e9; };
    return Status(
        StatusCode::kResourceExhausted,
        fmt::format("the weights take {:.2f} GB of the GPU's memory; {:.2f} GB are free, of {:.2f} GB that may "
                    "be in use and {:.2f} GB in all",
                    gigabytes(bytes), gigabytes(room->free), gigabytes(room->granted), gigabytes(room->total)));
  }
  return Buffer::allocate(bytes, memory);
}

Result<Weights> place_weights(const Config& config, const LayerTable& table, const Checkpoint& checkpoint,
                              Memory& memory, Buffer& room) {
  uint64_t used = 0;
  std::vector<FilePiece> pieces;
  Weights weights =
      visit_tensors(config, table, [&](std::string_view name, DType dtype, const Shape& shape) -> const void* {
        const TensorUse use = tensor_use(name);
        if (use == TensorUse::kPicture) return nullptr;
        const std::string spelled = stored_name(checkpoint, name);
        const TensorView stored = checkpoint.require(spelled, dtype, shape).value();
        if (use == TensorUse::kEngramTable) return stored.data;
        DI_CHECK(used + stored.bytes() <= room.size(), "the room holds the tensors that it was made for");
        std::byte* const place = room.data() + used;
        const MappedFile& file = checkpoint.shard_of(checkpoint.index_of(spelled).value()).file();
        pieces.push_back({&file, static_cast<uint64_t>(stored.data - file.data()), stored.bytes(), place});
        used += aligned(stored.bytes());
        return place;
      });
  DI_RETURN_IF_ERROR(memory.load(pieces));
  return weights;
}

}  // namespace deepinfer::deepseek_v41
