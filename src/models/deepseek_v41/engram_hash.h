// EngramHash: from token ids to rows of the Engram tables (specs: v41-model.md 2.8).  Exact integer work of the host;
// called by the model once a step for all Engram layers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "models/deepseek_v41/config.h"

namespace deepinfer::deepseek_v41 {

// The class of a position that no n-gram may span (picture rows; positions before 0 act the same).
inline constexpr int32_t kDeadClass = -1;

class EngramHash {
 public:
  EngramHash() = default;  // of a model without Engram

  // classes: the class of each token id, vocab_size entries in [0, engram_compressed_vocab_size).
  // Errors: entries out of range or of the wrong number; engram_num_embeddings that are not the sums of the primes.
  static Result<EngramHash> make(const Config& config, std::vector<int32_t> classes);

  int32_t class_of(int32_t token) const { return classes_[static_cast<size_t>(token)]; }
  int lookback() const { return ngram_ - 1; }  // earlier tokens that a row depends on
  int lookups() const { return (ngram_ - 1) * heads_; }

  // Table rows of the last `rows` positions of `classes` for Engram layer number `engram` (index into
  // engram_layer_ids). Entries before them are the look-back; where there are fewer than lookback(), the sequence
  // starts there. out: [rows, lookups()], n-gram length by n-gram length, head by head.
  void rows(int engram, std::span<const int32_t> classes, int64_t rows, int64_t* out) const;

  std::span<const int64_t> primes(int engram) const { return layers_[static_cast<size_t>(engram)].primes; }
  std::span<const int64_t> multipliers(int engram) const { return layers_[static_cast<size_t>(engram)].multipliers; }

 private:
  struct Layer {
    std::vector<int64_t> primes;       // [lookups]
    std::vector<int64_t> offsets;      // [lookups]: first table row of each prime's part
    std::vector<int64_t> multipliers;  // [n-gram size], odd
  };

  std::vector<int32_t> classes_;
  std::vector<Layer> layers_;
  int32_t pad_class_ = 0;
  int ngram_ = 1;
  int heads_ = 0;
};

}  // namespace deepinfer::deepseek_v41
