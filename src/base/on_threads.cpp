#include "base/on_threads.h"

#include <system_error>
#include <thread>
#include <vector>

namespace deepinfer {

void on_threads(std::size_t count, FunctionRef<void(std::size_t)> work) {
  if (count == 0) return;
  std::vector<std::jthread> others;
  others.reserve(count - 1);
  for (std::size_t i = 1; i < count; ++i) {
    try {
      others.emplace_back([work, i] { work(i); });
    } catch (const std::system_error&) {
      work(i);
    }
  }
  work(0);
}

}  // namespace deepinfer
