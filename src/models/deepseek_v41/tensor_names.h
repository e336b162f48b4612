// The one description of the checkpoint's tensors: walks over all of them in the order of the model and fills a Weights
// with what the visitor returns.  Used by tensors.cpp, once to list and once to bind.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/function_ref.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/layer_table.h"
#include "models/deepseek_v41/weights.h"
#include "tensor/tensor.h"

namespace deepinfer::deepseek_v41 {

// Returns where the tensor lies, or null.
using TensorVisitor = FunctionRef<const void*(std::string_view name, DType dtype, const Shape& shape)>;

Weights visit_tensors(const Config& config, const LayerTable& table, TensorVisitor visit);

enum class TensorUse : uint8_t {
  kOperand,      // of operations
  kExpert,       // likewise, of a routed expert
  kEngramTable,  // gathered by row
  kPicture,      // the picture encoder, which text generation does not read
};
TensorUse tensor_use(std::string_view name);  // as visitors hear it

}  // namespace deepinfer::deepseek_v41
