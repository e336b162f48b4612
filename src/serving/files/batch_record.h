// BatchRecord: what is known of one batch of OpenAI's Batch API, as its client sees it and as a server keeps it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "text/json_text.h"

namespace deepinfer::serving {

// In the order in which a batch can pass them; the last four are ends.
enum class BatchStatus : uint8_t {
  kValidating,
  kInProgress,
  kFinalizing,
  kCancelling,
  kCompleted,
  kFailed,
  kExpired,
  kCancelled,
};
inline constexpr size_t kBatchStatuses = 8;

std::string_view to_string(BatchStatus status);
inline bool has_ended(BatchStatus status) {
  return status >= BatchStatus::kCompleted;
}

struct BatchRecord {
  std::string id;
  std::string owner;
  std::string endpoint;  // "/v1/chat/completions", ...
  std::string input_file_id;
  std::string output_file_id, error_file_id;  // empty: there is none
  BatchStatus status = BatchStatus::kValidating;
  BatchStatus ends_as = BatchStatus::kCompleted;             // from kFinalizing and kCancelling on
  std::array<std::optional<int64_t>, kBatchStatuses> times;  // when it came to a status, in seconds since 1970
  int64_t expires = 0;
  int64_t total = 0, completed = 0, failed = 0;  // requests
  Json errors = Json::array();                   // of kFailed: {code, line, message, param}
  Json metadata = nullptr;                       // an object of strings, or null
  uint64_t seed = 0;                             // of requests that name none

  std::optional<int64_t>& time(BatchStatus at) { return times[static_cast<size_t>(at)]; }
  const std::optional<int64_t>& time(BatchStatus at) const { return times[static_cast<size_t>(at)]; }
  void enter(BatchStatus next, int64_t now);

  // The object that clients get.
  Json object() const;
  // What a server keeps, and back.  kCorruptFile for text that it did not write.
  std::string text() const;
  static Result<BatchRecord> parse(std::string_view text);
};

}  // namespace deepinfer::serving
