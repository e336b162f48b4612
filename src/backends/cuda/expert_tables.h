// ExpertTables: the pointers to the experts' weights of each layer in device memory, so that they travel once and not
// with every step.  A step that a graph has captured finds them there again.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/cuda/kernels/experts/sm90_experts.h"
#include "backends/cuda/launch/device_buffer.h"
#include "backends/cuda/launch/stream.h"

namespace deepinfer::cuda {

class ExpertTables {
 public:
  ExpertTables() = default;
  ExpertTables(const ExpertTables&) = delete;
  ExpertTables& operator=(const ExpertTables&) = delete;
  ~ExpertTables();

  // Room for kTables lists of at most so many experts.
  Status prepare(int experts, Stream stream);
  // The table of a list where it is known, by its place in the host's memory and by its content; else null.
  const ExpertPointers* find(const ExpertWeights* experts, int count) const;
  // Makes the table of a list that is not known, on the device for kernels that are launched from now on.  One more
  // than there is room for takes the place of the one made first.
  Result<const ExpertPointers*> add(const ExpertWeights* experts, int count);

 private:
  static constexpr size_t kTables = 128;

  struct Entry {
    const ExpertWeights* place = nullptr;
    std::vector<ExpertWeights> content;
  };
  const ExpertPointers* table(size_t slot) const;
  Status upload(size_t slot);

  int experts_ = 0;
  Stream stream_ = nullptr;
  ExpertPointers* pinned_ = nullptr;  // [kTables, experts_]: copies in flight and captured ones read it
  DeviceBuffer device_;               // likewise
  std::vector<Entry> entries_;        // by slot
  size_t next_ = 0;                   // slot, once all are taken
};

}  // namespace deepinfer::cuda
