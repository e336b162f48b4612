#include "ops/linear.h"

#include "base/check.h"

namespace deepinfer {

LinearWeight LinearWeight::rows(int64_t first, int64_t count) const {
  LinearWeight part = *this;
  part.n = count;
  const auto* bytes = static_cast<const uint8_t*>(data);
  switch (format) {
    case Format::kFp8:
      DI_CHECK(first % 32 == 0, "an FP8 weight is cut between its 32-row scale tiles only");
      part.data = bytes + first * k;
      part.scale = scale + first / 32 * ((k + 31) / 32);
      break;
    case Format::kFp4:
      part.data = bytes + first * (k / 2);
      part.scale = scale + first * (k / 32);
      break;
    case Format::kBf16:
      part.data = bytes + first * k * 2;
      break;
  }
  return part;
}

int64_t LinearWeight::bytes() const {
  switch (format) {
    case Format::kFp8: return n * k + (n + 31) / 32 * ((k + 31) / 32);
    case Format::kFp4: return n * (k / 2) + n * (k / 32);
    case Format::kBf16: return n * k * 2;
  }
  return 0;
}

}  // namespace deepinfer
