// SideThreads: a few threads that do independent pieces of work beside their owner, one batch of pieces at a time; the
// owner helps when it has nothing else to do.  Used by StepExecutor for the masks of a step.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace deepinfer {

class SideThreads {
 public:
  // threads: at least 1.
  explicit SideThreads(int threads);
  ~SideThreads();
  SideThreads(const SideThreads&) = delete;
  SideThreads& operator=(const SideThreads&) = delete;

  // Begins work(0) .. work(pieces - 1), in this order, each once, on any thread.  No more threads wake than there is
  // work for.  wait() comes before the next start().  work must not throw.
  void start(size_t pieces, std::function<void(size_t)> work);
  // Does pieces that nobody has begun, then waits for the others.
  void wait();

 private:
  void run();
  void join();
  // Begins and ends pieces as long as there are any; `lock` is held before and after.
  void take_pieces(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable begun_, ended_;
  std::function<void(size_t)> work_;
  size_t pieces_ = 0;
  size_t next_ = 0;  // first piece that nobody has begun
  size_t unfinished_ = 0;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace deepinfer
