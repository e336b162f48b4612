// Sends streamed requests to a server of this machine with a fixed number at a time and measures what their senders
// see.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "load/load_run.h"

namespace deepinfer::cli {

struct ServedLoadResult {
  int64_t requests = 0, events = 0;
  double seconds = 0;         // first byte sent to last end
  Percentiles first_token;    // of an answer, after its request was sent
  Percentiles request;        // sent to end
  double client_seconds = 0;  // processor time of the thread that sent and received
};

// The request as a body of POST /v1/completions: the same answer, as a stream.
std::string completion_body(const EngineRequest& request, const std::string& model);

// Connections to 127.0.0.1:port, one for each request that runs at a time.  The error of the first request that was
// refused, or whose answer was not whole.
Result<ServedLoadResult> run_served_load(int port, const std::vector<std::string>& bodies, int64_t concurrency);

}  // namespace deepinfer::cli
