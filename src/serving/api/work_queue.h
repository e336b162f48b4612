// WorkQueue: some threads for what takes longer than a socket's thread may: reading bodies and tokenising.  Bounded.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace deepinfer::serving {

class WorkQueue {
 public:
  WorkQueue(int threads, size_t most_waiting);
  // Runs what waits.
  ~WorkQueue();

  // False: too much waits already, and the work is not taken.
  bool push(std::function<void()> work);

 private:
  void run();

  const size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable some_;
  std::deque<std::function<void()>> waiting_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace deepinfer::serving
