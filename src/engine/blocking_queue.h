// BlockingQueue: hands values from any thread to one that waits for them.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace deepinfer {

template <typename T>
class BlockingQueue {
 public:
  // Where there is no memory for it (std::bad_alloc) the value stays with the caller.
  void push(T&& value) {
    {
      const std::lock_guard lock(mutex_);
      values_.push_back(std::move(value));
    }
    ready_.notify_one();
  }
  // Waits for a value; false once the queue is closed and empty.
  bool pop(T& value) {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return closed_ || !values_.empty(); });
    return take(value);
  }
  // False where there is none at the moment.
  bool try_pop(T& value) {
    const std::lock_guard lock(mutex_);
    return take(value);
  }
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

 private:
  bool take(T& value) {
    if (values_.empty()) return false;
    value = std::move(values_.front());
    values_.pop_front();
    return true;
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<T> values_;
  bool closed_ = false;
};

}  // namespace deepinfer
