#include "ops/golden_ops.h"

#include <algorithm>

namespace deepinfer {

std::vector<GoldenCheck> golden_checks() {
  std::vector<GoldenCheck> all;
  for (const auto part :
       {golden_row_checks(), golden_attention_checks(), golden_expert_checks(), golden_draft_checks()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::ostream& operator<<(std::ostream& out, const GoldenParameter& parameter) {
  return out << parameter.backend.name << " " << parameter.check.entry;
}

std::vector<GoldenParameter> golden_parameter_list(const std::vector<OpsBackend>& backends) {
  std::vector<GoldenParameter> list;
  for (const OpsBackend& backend : backends) {
    for (const GoldenCheck& check : golden_checks()) list.push_back({backend, check});
  }
  return list;
}

std::string golden_name(const testing::TestParamInfo<GoldenParameter>& info) {
  std::string name = info.param.backend.name + "_" + info.param.check.entry;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

TEST_P(GoldenOps, Agrees) {
  const std::unique_ptr<Ops> ops = GetParam().backend.make();
  ASSERT_TRUE(ops->prepare(test_limits()).ok());
  GetParam().check.run(*ops, GoldenEntry::ops(GetParam().check.entry));
}

}  // namespace deepinfer
