// What OpenAI's "validating" looks at: whether every line of a batch's input is a request that may be in it.
#pragma once

#include <atomic>
#include <filesystem>
#include <string_view>

#include "base/status.h"
#include "text/json_text.h"

namespace deepinfer::serving {

inline constexpr int64_t kMostBatchRequests = 50'000;

struct CheckedBatch {
  int64_t requests = 0;
  Json errors = Json::array();  // {code, line, message, param}, the first 100; empty: the batch can run
};

// Reads the file to its end.  kCancelled once `interrupted` is set; kIoError, kNotFound.
Result<CheckedBatch> check_batch(const std::filesystem::path& input, std::string_view endpoint,
                                 const std::atomic<bool>& interrupted);

}  // namespace deepinfer::serving
