#include "scheduling/plan.h"

namespace deepinfer {

void StepPlan::clear() {
  number = 0;
  saves_before.clear();
  admissions.clear();
  growths.clear();
  prefills.clear();
  decodes.clear();
  saves_after.clear();
  retirements.clear();
  block_ids.clear();
  prefill_rows = 0;
  decode_rows = 0;
}

}  // namespace deepinfer
