#include "engine/side_thread.h"

#include <utility>

#include "base/check.h"

namespace deepinfer {

SideThread::SideThread() : thread_([this] { run(); }) {}

SideThread::~SideThread() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SideThread::start(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    DI_CHECK(!work_, "one piece of work at a time");
    work_ = std::move(work);
  }
  changed_.notify_all();
}

void SideThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !work_; });
}

void SideThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || work_; });
    if (!work_) return;
    lock.unlock();
    work_();  // nobody changes it while it is set
    lock.lock();
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace deepinfer
