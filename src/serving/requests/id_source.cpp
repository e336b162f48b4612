#include "serving/requests/id_source.h"

#include <fmt/format.h>

#include <random>

#include "base/philox.h"

namespace deepinfer::serving {

IdSource::IdSource() {
  std::random_device random;
  for (uint64_t& word : key_) word = (uint64_t{random()} << 32) | random();
}

uint64_t IdSource::number() {
  const uint64_t counter = next_.fetch_add(1, std::memory_order_relaxed);
  const auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
  const auto words = philox4x32({low(counter), low(counter >> 32), low(key_[1]), low(key_[1] >> 32)},
                                {low(key_[0]), low(key_[0] >> 32)});
  return (uint64_t{words[0]} << 32) | words[1];
}

std::string IdSource::id(std::string_view prefix) {
  const uint64_t high = number();
  return fmt::format("{}{:016x}{:016x}", prefix, high, number());
}

}  // namespace deepinfer::serving
