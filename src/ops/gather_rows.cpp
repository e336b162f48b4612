#include "ops/gather_rows.h"

#include <cstring>

#include "base/check.h"
#include "ops/ops.h"

namespace deepinfer {

void Ops::gather_rows(const GatherRows& op) {
  DI_CHECK(op.x.columns == op.y.columns, "a row keeps its width");
  const auto bytes = static_cast<size_t>(op.y.columns);
  for (int64_t i = 0; i < op.y.rows; ++i) {
    // Compaction in place may move a row onto itself, and neighbouring rows never overlap.
    std::memmove(op.y.row(i), op.x.row(op.index[i]), bytes);
  }
}

}  // namespace deepinfer
