// Scalar functions of the model, in fp32 with the exp of the C++ library.
#pragma once

#include <cmath>

namespace deepinfer::reference {

inline float sigmoid(float x) {
  return 1.0f / (1.0f + std::exp(-x));
}
inline float silu(float x) {
  return x / (1.0f + std::exp(-x));
}
inline float softplus(float x) {
  return x > 20.0f ? x : std::log1p(std::exp(x));
}

}  // namespace deepinfer::reference
