#include <utility>

#include "grammar/grammar_job.h"

namespace deepinfer {

GrammarTicket::GrammarTicket(std::shared_ptr<Job> job) : job_(std::move(job)) {}
GrammarTicket::~GrammarTicket() {
  leave();
}

GrammarTicket& GrammarTicket::operator=(GrammarTicket&& other) noexcept {
  if (this != &other) {
    leave();
    job_ = std::move(other.job_);
  }
  return *this;
}

void GrammarTicket::leave() {
  if (job_ == nullptr) return;
  std::lock_guard lock(job_->mutex);
  if (--job_->tickets == 0 && !job_->finished) job_->cancelled = true;
}

bool GrammarTicket::ready() const {
  if (job_ == nullptr) return false;
  std::lock_guard lock(job_->mutex);
  return job_->finished;
}

Result<SharedGrammar> GrammarTicket::result() const {
  if (!ready()) return Status(StatusCode::kInternal, "the grammar is not ready");
  std::lock_guard lock(job_->mutex);
  if (!job_->error.ok()) return job_->error;
  return job_->grammar;
}

Result<SharedGrammar> GrammarTicket::wait() const {
  if (job_ != nullptr) {
    std::unique_lock lock(job_->mutex);
    job_->done.wait(lock, [this] { return job_->finished; });
  }
  return result();
}

}  // namespace deepinfer
