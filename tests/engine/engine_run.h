// Engines on the demonstration model and what their callers saw, for tests.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "ops/ops_backend.h"

namespace deepinfer {

// Everything that one request's callback was given.
struct SeenRequest {
  std::vector<GeneratedToken> tokens;
  std::vector<GeneratedToken> prompt_logprobs;
  std::vector<RequestSummary> ends;  // one, when all is well
  TokenChoices choices;              // of all tokens but the last, where asked for
  std::vector<int64_t> versions;     // of the weights of each token
};

class EngineRun {
 public:
  // options.model: the demonstration model unless it is given.
  EngineRun(const OpsBackend& backend, EngineOptions options);

  Result<RequestId> submit(EngineRequest request);
  void drain() { EXPECT_TRUE(engine_->drain()); }
  // Tokens seen so far; thread-safe.
  int64_t tokens_seen(RequestId id) const;
  bool ended(RequestId id) const;  // likewise
  // After drain().
  const SeenRequest& seen(RequestId id) const { return seen_.at(id); }
  Engine& engine() { return *engine_; }
  // Closes the engine: all requests end.
  void close() { engine_.reset(); }

 private:
  mutable std::mutex mutex_;
  std::map<RequestId, SeenRequest> seen_;
  std::unique_ptr<Engine> engine_;  // ends before what its callbacks write to
};

// Tokens, positions and log-probabilities, bit for bit.
void expect_same_tokens(const std::vector<GeneratedToken>& got, const std::vector<GeneratedToken>& want,
                        const std::string& what);

}  // namespace deepinfer
