#include "models/deepseek_v41/placed_weights.h"

#include "base/check.h"
#include "models/deepseek_v41/tensor_names.h"
#include "models/deepseek_v41/tensors.h"

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
  return Buffer::allocate(bytes, memory);
}

Weights place_weights(const Config& config, const LayerTable& table, const Checkpoint& checkpoint, Memory& memory,
                      Buffer& room) {
  uint64_t used = 0;
  return visit_tensors(config, table, [&](std::string_view name, DType dtype, const Shape& shape) -> const void* {
    const TensorUse use = tensor_use(name);
    if (use == TensorUse::kPicture) return nullptr;
    const TensorView stored = checkpoint.require(stored_name(checkpoint, name), dtype, shape).value();
    if (use == TensorUse::kEngramTable) return stored.data;
    DI_CHECK(used + stored.bytes() <= room.size(), "the room holds the tensors that it was made for");
    std::byte* const place = room.data() + used;
    memory.write(place, stored.data, stored.bytes());
    used += aligned(stored.bytes());
    return place;
  });
}

}  // namespace deepinfer::deepseek_v41
