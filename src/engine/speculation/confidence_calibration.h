// ConfidenceCalibration: what the draft model's confidence promises for a draft's place in the block, corrected by what
// came true.  Text that the draft does not know makes it too sure of itself.  Used wherever the number of drafts to
// verify is chosen; it changes speed, never tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace deepinfer {

class ConfidenceCalibration {
 public:
  // Appends survivals, corrected; raw: the chance that draft j and all before it come true, as the draft model says.
  void append_corrected(std::span<const float> raw, std::vector<float>& survivals) const;
  // Of drafts with these raw survivals, how many were judged, first to last, and how many of them came true.
  void observe(std::span<const float> raw, int64_t judged, int64_t accepted);

 private:
  // Both forget, and begin with the same few tokens.
  struct Place {
    double promised = 2, kept = 2;
  };
  static constexpr size_t kUsualBlock = 16;

  std::vector<Place> places_ = std::vector<Place>(kUsualBlock);
};

}  // namespace deepinfer
