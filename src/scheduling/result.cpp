#include "scheduling/result.h"

namespace deepinfer {

void StepResult::clear() {
  plan = 0;
  sequences.clear();
  tokens.clear();
  duration = Time{0};
}

}  // namespace deepinfer
