#include "ops/model_weights.h"

#include "base/check.h"

namespace deepinfer {

const ModelWeights& ModelWeights::demonstration() {
  static const ModelWeights weights(Checkpoint::open(DEEPINFER_TEST_MODEL).value());
  return weights;
}

TensorView ModelWeights::tensor(const std::string& name) const {
  const auto found = checkpoint_.find(name);
  DI_CHECK(found.has_value(), "the demonstration model has no tensor " + name);
  return *found;
}

LinearWeight ModelWeights::linear(const std::string& name) const {
  const TensorView weight = tensor(name + ".weight");
  const auto* data = reinterpret_cast<const uint8_t*>(weight.data);
  const int64_t n = weight.shape[0];
  switch (weight.dtype) {
    case DType::kF8E4M3:
      return {LinearWeight::Format::kFp8, n, weight.shape[1], data, tensor(name + ".scale").as<uint8_t>()};
    case DType::kI8:
      return {LinearWeight::Format::kFp4, n, 2 * weight.shape[1], data, tensor(name + ".scale").as<uint8_t>()};
    default:
      return plain(name + ".weight");
  }
}

LinearWeight ModelWeights::plain(const std::string& name) const {
  const TensorView weight = tensor(name);
  return {LinearWeight::Format::kBf16, weight.shape[0], weight.shape[1], weight.as<bf16>(), nullptr};
}

MatrixView<const bf16> ModelWeights::matrix(const std::string& name) const {
  const TensorView weight = tensor(name);
  return {weight.as<bf16>(), weight.shape[0], weight.shape[1]};
}

const bf16* ModelWeights::vector(const std::string& name) const {
  return tensor(name).as<bf16>();
}
const float* ModelWeights::floats(const std::string& name) const {
  return tensor(name).as<float>();
}

ExpertWeights ModelWeights::expert(const std::string& prefix) const {
  return {linear(prefix + ".w1"), linear(prefix + ".w3"), linear(prefix + ".w2")};
}

HyperConnectionWeights ModelWeights::hyper_connection(const std::string& prefix) const {
  return {.fn = floats(prefix + "_fn"), .base = floats(prefix + "_base"), .scale = floats(prefix + "_scale")};
}

EngramTable ModelWeights::engram_table(const std::string& name) const {
  const TensorView weight = tensor(name + ".weight");
  return {weight.as<uint8_t>(), tensor(name + ".scale").as<uint8_t>(), weight.shape[0], weight.shape[1]};
}

}  // namespace deepinfer
