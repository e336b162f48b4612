#include "ops/embed.h"

#include <algorithm>

#include "base/check.h"
#include "ops/reference/reference.h"

namespace deepinfer::reference {

void embed_tokens(const EmbedTokens& op) {
  const int64_t d = op.table.columns;
  DI_CHECK(op.streams.columns == op.copies * d, "streams is [rows, copies * d]");
  for (int64_t m = 0; m < op.streams.rows; ++m) {
    DI_CHECK(op.ids[m] >= 0 && op.ids[m] < op.table.rows, "token ids lie in the vocabulary");
    for (int64_t j = 0; j < op.copies; ++j) std::copy_n(op.table.row(op.ids[m]), d, op.streams.row(m) + j * d);
    if (op.pre.data == nullptr) continue;
    for (int64_t j = 0; j < op.copies; ++j) op.pre.row(m)[j] = j == 0 ? 1.0f : 0.0f;
  }
}

}  // namespace deepinfer::reference
