#include "engine/tiers/swap_cost.h"

namespace deepinfer {
namespace {

double seconds(Time time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void SwapCost::observe_step(int64_t prefill_rows, int64_t decode_rows, Time duration) {
  if (prefill_rows < kLeastRows) return;
  const double now = seconds(duration) / static_cast<double>(prefill_rows + decode_rows);
  row_seconds_ = row_seconds_ == 0 ? now : row_seconds_ + kNewest * (now - row_seconds_);
}

void SwapCost::observe_read(int64_t bytes, Time waited) {
  if (bytes <= 0) return;
  const double now = seconds(waited) / static_cast<double>(bytes);
  byte_seconds_ = byte_seconds_ == 0 ? now : byte_seconds_ + kNewest * (now - byte_seconds_);
}

bool SwapCost::pays(int64_t bytes, int64_t tokens) {
  if (static_cast<double>(bytes) * byte_seconds_ <= static_cast<double>(tokens) * row_seconds_ || row_seconds_ == 0 ||
      ++declined_ == kDeclined) {
    declined_ = 0;
    return true;
  }
  return false;
}

}  // namespace deepinfer
