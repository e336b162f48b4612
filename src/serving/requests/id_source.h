// IdSource: names of answers and seeds of requests that ask for none.  Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace deepinfer::serving {

class IdSource {
 public:
  IdSource();

  // 64 random bits.
  uint64_t number();
  // `prefix` and 32 hexadecimal digits.
  std::string id(std::string_view prefix);

 private:
  uint64_t key_[2];
  std::atomic<uint64_t> next_{0};
};

}  // namespace deepinfer::serving
