// Suite: a request's answer does not depend on company.  Random schedules of requests against the answers that each
// gets alone from the generator.
#pragma once

#include "engine/generator_suite.h"

namespace deepinfer {

struct CompanyCase {
  OpsBackend backend;
  OpsBackend solo;  // of the answers that it is compared with: the same path on one thread
  int schedules = 0;
  int requests = 0;  // of each
};
inline std::ostream& operator<<(std::ostream& out, const CompanyCase& c) {
  return out << c.backend.name;
}
inline std::string company_case_name(const testing::TestParamInfo<CompanyCase>& info) {
  return info.param.backend.name;
}

class Company : public testing::TestWithParam<CompanyCase> {};
// An engine that goes over to other weights answers as one that was opened with them (other_weights_suite.cpp).
class OtherWeights : public testing::TestWithParam<CompanyCase> {};
// Where experts and Engram tables lie never shows (weight_placement_suite.cpp).
class WeightPlacements : public testing::TestWithParam<CompanyCase> {};

}  // namespace deepinfer
