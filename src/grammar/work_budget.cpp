#include "grammar/work_budget.h"

#include <climits>

// Counted down by the library; see third_party/xgrammar/CMakeLists.txt.
__thread long deepinfer_xgrammar_work = 0;

namespace deepinfer {
namespace {

// Some ten microseconds of work lie between two looks at the clock.
constexpr long kWorkBetweenChecks = 256;

struct BudgetOfThread {
  bool active = false;
  WorkLimits limits;
  int64_t bytes = 0;
};
thread_local BudgetOfThread budget;

}  // namespace

WorkBudget::WorkBudget(const WorkLimits& limits) {
  DI_CHECK(!budget.active, "one budget at a time");
  budget.active = true;
  budget.limits = limits;
  budget.bytes = 0;
  deepinfer_xgrammar_work = kWorkBetweenChecks;
}

WorkBudget::~WorkBudget() {
  budget.active = false;
  deepinfer_xgrammar_work = LONG_MAX;
}

int64_t WorkBudget::kept_bytes() {
  return budget.bytes;
}

void WorkBudget::check() {
  if (!budget.active) return;
  const auto& limits = budget.limits;
  if (limits.cancelled != nullptr && limits.cancelled->load(std::memory_order_relaxed))
    throw WorkStopped(WorkStopped::Reason::kCancelled);
  if (std::chrono::steady_clock::now() > limits.deadline) throw WorkStopped(WorkStopped::Reason::kTime);
}

}  // namespace deepinfer

void deepinfer_xgrammar_slow_path() {
  deepinfer_xgrammar_work = deepinfer::budget.active ? deepinfer::kWorkBetweenChecks : LONG_MAX;
  deepinfer::WorkBudget::check();
}

void deepinfer_xgrammar_keep(unsigned long long bytes) {
  if (!deepinfer::budget.active) return;
  deepinfer::budget.bytes += static_cast<int64_t>(bytes);
  if (deepinfer::budget.bytes > deepinfer::budget.limits.bytes)
    throw deepinfer::WorkStopped(deepinfer::WorkStopped::Reason::kBytes);
}
