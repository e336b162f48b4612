#include "engine/side_threads.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace deepinfer {

SideThreads::SideThreads(int threads) {
  DI_CHECK(threads >= 1, "side threads are at least one");
  threads_.reserve(static_cast<size_t>(threads));
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
  } catch (...) {
    join();
    throw;
  }
}

SideThreads::~SideThreads() {
  join();
}

void SideThreads::join() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void SideThreads::start(size_t pieces, std::function<void(size_t)> work) {
  {
    const std::lock_guard lock(mutex_);
    DI_CHECK(unfinished_ == 0, "one batch of pieces at a time");
    work_ = std::move(work);
    pieces_ = unfinished_ = pieces;
    next_ = 0;
  }
  for (size_t i = 0; i < std::min(pieces, threads_.size()); ++i) begun_.notify_one();
}

void SideThreads::wait() {
  std::unique_lock lock(mutex_);
  take_pieces(lock);
  ended_.wait(lock, [this] { return unfinished_ == 0; });
}

void SideThreads::take_pieces(std::unique_lock<std::mutex>& lock) {
  while (next_ < pieces_) {
    const size_t piece = next_++;
    lock.unlock();
    work_(piece);  // nobody changes it while a piece is unfinished
    lock.lock();
    if (--unfinished_ == 0) ended_.notify_all();
  }
}

void SideThreads::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    begun_.wait(lock, [this] { return closing_ || next_ < pieces_; });
    if (next_ >= pieces_) return;
    take_pieces(lock);
  }
}

}  // namespace deepinfer
