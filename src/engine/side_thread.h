// SideThread: one thread that does one piece of work at a time beside its owner.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace deepinfer {

class SideThread {
 public:
  SideThread();
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // wait() comes before the next start().  work must not throw.
  void start(std::function<void()> work);
  void wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // under way or waiting
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace deepinfer
