// StepResult: what the executor reports of a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduling/request.h"

namespace deepinfer {

struct SequenceResult {
  RequestId request = 0;
  // Tokens decided in this step: part of StepResult::tokens.  Empty for a chunk that is not the prompt's last, and for
  // rows that were not run because the sequence had ended.
  int64_t first_token = 0;
  int64_t tokens = 0;
  std::optional<EndReason> ended;  // with the last of these tokens, or with none of them
  // What the sequence's rings hold after the step, for snapshots (SnapshotInfo).
  int64_t exact_from = 0;
  int64_t draft_context_from = 0;
};

struct StepResult {
  uint64_t plan = 0;
  std::vector<SequenceResult>
      sequences;  // one for each chunk of the plan, then one for each decode entry, in its order
  std::vector<int32_t> tokens;
  Time duration{0};  // of the step on the device

  void clear();
};

}  // namespace deepinfer
