#include "models/deepseek_v41/engram_hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "models/deepseek_v41/pcg64.h"

namespace deepinfer::deepseek_v41 {
namespace {

bool is_prime(int64_t n) {
  if (n < 4) return n > 1;
  if (n % 2 == 0) return false;
  for (int64_t d = 3; d * d <= n; d += 2) {
    if (n % d == 0) return false;
  }
  return true;
}

}  // namespace

Result<EngramHash> EngramHash::make(const Config& c, std::vector<int32_t> classes) {
  EngramHash hash;
  if (c.engram_layer_ids.empty()) return hash;
  if (static_cast<int64_t>(classes.size()) != c.vocab_size)
    return corrupt_file(
        fmt::format("the Engram token map has {} entries; allowed: vocab_size, {}", classes.size(), c.vocab_size));
  const auto [low, high] = std::minmax_element(classes.begin(), classes.end());
  if (*low < 0 || *high >= c.engram_compressed_vocab_size)
    return corrupt_file(
        fmt::format("the Engram token map holds class {}; allowed: 0 to {} (engram_compressed_vocab_size - 1)",
                    *low < 0 ? *low : *high, c.engram_compressed_vocab_size - 1));
  hash.classes_ = std::move(classes);
  hash.pad_class_ = hash.class_of(c.engram_pad_token_id);
  hash.ngram_ = c.engram_max_ngram_size;
  hash.heads_ = c.engram_n_heads;

  // A class times a multiplier stays below 2^63, and so does every XOR of such products.
  const auto bound = static_cast<uint64_t>(std::numeric_limits<int64_t>::max() / c.engram_compressed_vocab_size / 2);
  int64_t candidate = c.engram_vocab_size;
  for (size_t i = 0; i < c.engram_layer_ids.size(); ++i) {
    Layer& layer = hash.layers_.emplace_back();
    int64_t total = 0;
    for (int k = 0; k < hash.lookups(); ++k) {
      while (!is_prime(candidate)) ++candidate;
      layer.primes.push_back(candidate);
      layer.offsets.push_back(total);
      total += candidate++;
    }
    if (total != c.engram_num_embeddings[i])
      return corrupt_file(
          fmt::format("engram_num_embeddings[{}] is {}; allowed: {}, the sum of the layer's {} primes from "
                      "engram_vocab_size on",
                      i, c.engram_num_embeddings[i], total, hash.lookups()));
    Pcg64 random(static_cast<uint32_t>(10007 * c.engram_layer_ids[i]));
    for (int s = 0; s < hash.ngram_; ++s)
      layer.multipliers.push_back(static_cast<int64_t>(random.below(bound)) * 2 + 1);
  }
  return hash;
}

void EngramHash::rows(int engram, std::span<const int32_t> classes, int64_t rows, int64_t* out) const {
  const Layer& layer = layers_[static_cast<size_t>(engram)];
  const auto first = static_cast<int64_t>(classes.size()) - rows;
  for (int64_t i = 0; i < rows; ++i, out += lookups()) {
    const int64_t p = first + i;
    bool blocked = false;  // sticky: past a dead position all further look-back is padding
    int64_t rolling = 0;
    for (int s = 0; s < ngram_; ++s) {
      blocked = blocked || p < s || classes[static_cast<size_t>(p - s)] == kDeadClass;
      const int64_t value = blocked ? pad_class_ : classes[static_cast<size_t>(p - s)];
      rolling ^= value * layer.multipliers[static_cast<size_t>(s)];
      if (s == 0) continue;
      for (int h = 0; h < heads_; ++h) {
        const auto k = static_cast<size_t>((s - 1) * heads_ + h);
        out[k] = rolling % layer.primes[k] + layer.offsets[k];
      }
    }
  }
}

}  // namespace deepinfer::deepseek_v41
