// The generator behind numpy's default_rng(seed).integers(0, bound, n): SeedSequence, PCG64 (XSL-RR 128/64) and
// Lemire's bounded draw.  The Engram multipliers are defined by it (specs: v41-model.md 2.8); nothing else uses it.
#pragma once

#include <cstdint>

namespace deepinfer::deepseek_v41 {

class Pcg64 {
 public:
  explicit Pcg64(uint32_t seed);

  uint64_t next();
  // Uniform in [0, bound).  numpy takes another path for bounds up to 2^32: bound must be larger.
  uint64_t below(uint64_t bound);

 private:
  __extension__ typedef unsigned __int128 Word;
  Word state_ = 0;
  Word increment_ = 0;
};

}  // namespace deepinfer::deepseek_v41
