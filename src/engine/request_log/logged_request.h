// What a request log holds: under which circumstances requests ran, what was asked and what was answered.  Filled by
// read_request_log(), written by RequestLog; docs/observability.md describes the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"

namespace deepinfer {

// Equal answers are promised where backend and model are equal and the build rounds alike.
struct RequestLogHeader {
  std::string build;    // commit
  std::string program;  // checksum of the program's file
  std::string backend;  // "cpu/avx512", ...
  std::string model_name;
  std::string model;  // checksum of its files' contents (model_contents_checksum)
  // What the engine was opened with; the context is the one that it resolved.
  int64_t max_context = 0;
  int64_t cache_bytes = 0;
  int32_t max_sequences = 0;
  int64_t step_rows = 0;
  int64_t decode_latency_ms = 0;
  bool prefix_cache = true;
  int64_t early_snapshot_interval = 0;
  std::string draft_schedule;  // "all", "causal", "lagged", "fresh"
};

struct LoggedAnswer {
  Time at{0};  // when it ended
  EndReason reason = EndReason::kStop;
  std::string failure;                          // with EndReason::kError
  int64_t weights_version = 0;                  // of the weights at its end; the header speaks of version 0
  std::vector<GeneratedToken> tokens;           // positions are not kept: the answer begins behind the prompt
  std::vector<GeneratedToken> prompt_logprobs;  // of tokens 1, 2, ... of the prompt
};

struct LoggedRequest {
  RequestId id = 0;
  Time at{0};  // of submission, since the engine's start
  EngineRequest request;
  std::optional<LoggedAnswer> answer;  // none: the log ends before the request did
};

// The header of a log of this engine's requests.  `opened`: what it was opened with; build: the commit.
Result<RequestLogHeader> request_log_header(const Engine& engine, const EngineOptions& opened, const std::string& build,
                                            const std::string& model_name);

// "stop", "length", "cancelled", "deadline", "error".
const char* to_string(EndReason reason);
std::optional<EndReason> parse_end_reason(std::string_view name);
const char* to_string(DraftSchedule schedule);

}  // namespace deepinfer
