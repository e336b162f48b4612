#include "scheduling/snapshot_choice.h"

namespace deepinfer {
namespace {

int64_t last_boundary(const CacheGeometry& geometry, int64_t tokens) {
  return tokens / geometry.tokens_per_block * geometry.tokens_per_block;
}

bool keeps(const CacheGeometry& geometry, SnapshotKind kind) {
  if (geometry.full_snapshot_blocks == 0) return false;
  return kind == SnapshotKind::kFull || geometry.early_snapshot_blocks > 0;
}

bool is_new(const Residence& home, const SnapshotChoice& choice) {
  if (choice.position <= home.full_snapshot) return false;
  return choice.kind == SnapshotKind::kFull || choice.position > home.early_snapshot;
}

}  // namespace

std::optional<int64_t> next_early_boundary(const CacheGeometry& geometry, int64_t position, int64_t known) {
  if (!keeps(geometry, SnapshotKind::kEarly)) return std::nullopt;
  const int64_t next = (position / geometry.early_interval + 1) * geometry.early_interval;
  if (next >= last_boundary(geometry, known - 1)) return std::nullopt;  // the full one serves more
  return next;
}

std::optional<SnapshotChoice> snapshot_after_chunk(const CacheGeometry& geometry, const Residence& home, int64_t end,
                                                   int64_t known) {
  SnapshotChoice choice;
  if (end == known) {
    choice = {SnapshotKind::kFull, last_boundary(geometry, known - 1)};
  } else {
    choice = {SnapshotKind::kEarly, end};
    if (end % geometry.early_interval != 0 || end >= last_boundary(geometry, known - 1)) return std::nullopt;
  }
  if (choice.position == 0 || !keeps(geometry, choice.kind) || !is_new(home, choice)) return std::nullopt;
  return choice;
}

std::optional<SnapshotChoice> snapshot_at_leaving(const CacheGeometry& geometry, const SnapshotRule& rule,
                                                  const Residence& home, int64_t written,
                                                  std::optional<int64_t> prefill_logits_from) {
  SnapshotChoice choice{SnapshotKind::kFull, last_boundary(geometry, written)};
  if (choice.position == 0) return std::nullopt;
  if (prefill_logits_from && keeps(geometry, SnapshotKind::kEarly)) {
    const SnapshotInfo early{SnapshotKind::kEarly, choice.position, home.exact_from, home.draft_context_from};
    if (rule.usable(early, *prefill_logits_from)) choice.kind = SnapshotKind::kEarly;
  }
  if (!keeps(geometry, choice.kind) || !is_new(home, choice)) return std::nullopt;
  return choice;
}

}  // namespace deepinfer
