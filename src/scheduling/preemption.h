// Which running sequence gives its blocks to the others when there are none left.
#pragma once

#include "scheduling/running_set.h"

namespace deepinfer {

// Of the lowest priority the one with the fewest computed tokens, of equals the latest; never the first by rank, so
// that it goes on whatever happens to the others.  Null when fewer than two run. Computed tokens are what a preemption
// can lose: they are published, but memory is short and they may be evicted. O(running); called only when memory is
// short.
Sequence* choose_victim(const RunningSet& running);

}  // namespace deepinfer
