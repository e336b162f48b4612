// Memory is planned when the model opens: a step and a draft allocate nothing.
#include <gtest/gtest.h>

#include "backends/cpu_backends.h"
#include "base/allocation_count.h"
#include "models/golden_prompts.h"
#include "models/model_run.h"

namespace deepinfer {
namespace {

TEST(Allocation, StepsAndDraftsAllocateNothing) {
  const auto ids = ForwardGolden("recall").ids();
  for (const CpuIsa isa : machine_paths()) {
    LoadedModel loaded({"cpu", [isa] { return make_cpu_path(isa, 2); }}, {.rows = 300, .sequences = 1});
    SequenceRun run(loaded, {RowRule::Kind::kExact, 259});
    size_t at = 0;
    for (const size_t rows : {200, 60, 1, 6, 1, 5}) {
      const auto count = static_cast<int64_t>(rows);
      const int64_t logits_from = static_cast<int64_t>(at) + count - std::min<int64_t>(count, 6);
      const StepSequence step = run.part(std::span(ids).subspan(at, rows), logits_from);
      at += rows;
      const int64_t before = allocation_count();
      loaded.model().forward({&step, 1});
      EXPECT_EQ(allocation_count() - before, 0) << rows << " rows on " << to_string(isa);
    }
    const DraftSequence request = run.draft_part(5, 5);
    const int64_t before = allocation_count();
    loaded.model().draft({&request, 1});
    EXPECT_EQ(allocation_count() - before, 0) << "a draft on " << to_string(isa);
  }
}

}  // namespace
}  // namespace deepinfer
