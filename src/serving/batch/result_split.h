// A results file taken apart: answers here, errors there, as OpenAI's batches have them.  Bounded memory for lines of
// any length whose custom_id is not.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/status.h"

namespace deepinfer::serving {

struct ResultCounts {
  int64_t answers = 0;  // status 200
  int64_t errors = 0;   // all others
};

// Of the whole lines of a results file.
Result<ResultCounts> count_results(const std::filesystem::path& results);
// Writes them, in their order, to two files, which are made or replaced, and on the disk afterwards.
Result<ResultCounts> split_results(const std::filesystem::path& results, const std::filesystem::path& answers,
                                   const std::filesystem::path& errors);

}  // namespace deepinfer::serving
