// BatchCounts: how far a batch job is.
#pragma once

#include <cstdint>

namespace deepinfer::serving {

struct BatchCounts {
  int64_t answered_before = 0;  // by earlier runs of the job
  int64_t answered = 0;         // by this one, errors included
  int64_t errors = 0;           // of them
  int64_t prompt_tokens = 0;
  int64_t answer_tokens = 0;
};

}  // namespace deepinfer::serving
