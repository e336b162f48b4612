// Golden tests of the operations: every entry of the part "ops" of tests/data/model, run through the Ops interface on
// the demonstration model's weights.  The backend is the parameter (ops_backend.h says how to instantiate).
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "ops/golden_entry.h"
#include "ops/ops_backend.h"

namespace deepinfer {

// How one entry is recomputed and compared.
struct GoldenCheck {
  const char* entry;
  void (*run)(Ops& ops, const GoldenEntry& golden);
};

// The entries, by the file that checks them.
std::span<const GoldenCheck> golden_row_checks();        // embedding, norm, rotation, mHC, Engram, head
std::span<const GoldenCheck> golden_attention_checks();  // projections, compressor, indexer, attention
std::span<const GoldenCheck> golden_expert_checks();     // gate, experts
std::span<const GoldenCheck> golden_draft_checks();      // DSpark
std::vector<GoldenCheck> golden_checks();                // all of them

struct GoldenParameter {
  OpsBackend backend;
  GoldenCheck check;
};
std::ostream& operator<<(std::ostream& out, const GoldenParameter& parameter);

class GoldenOps : public testing::TestWithParam<GoldenParameter> {};

std::vector<GoldenParameter> golden_parameter_list(const std::vector<OpsBackend>& backends);
inline auto golden_parameters(const std::vector<OpsBackend>& backends) {
  return testing::ValuesIn(golden_parameter_list(backends));
}
std::string golden_name(const testing::TestParamInfo<GoldenParameter>& info);

}  // namespace deepinfer
