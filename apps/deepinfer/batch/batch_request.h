// A line's request in the engine's terms, and its answer in the protocol's.  The body of an answer is what the server
// sends to a request that does not stream.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "batch/batch_line.h"
#include "engine/engine.h"
#include "text/protocol/inference_request.h"
#include "text/protocol/request_error.h"
#include "text/tokenizer.h"

namespace deepinfer::cli {

// What all requests of a job share.
struct BatchContext {
  const Tokenizer* tokenizer = nullptr;
  const Engine* engine = nullptr;
  std::vector<int32_t> end_tokens;
  ProtocolOptions protocol;
  int32_t draft_tokens = -1;
  SpeculativeSampling speculative_sampling = SpeculativeSampling::kExact;
  PrefixReplay prefix_replay = PrefixReplay::kExact;
  uint64_t seed = 0;    // mixed with a line's key where its request has no seed
  int64_t created = 0;  // seconds since 1970, written into the answers
  std::string fingerprint;
};

// Collects the answer of one request.
class BatchAnswer {
 public:
  virtual ~BatchAnswer() = default;
  // The next token, end tokens included.  False: the answer is over, later tokens are no part of it.
  virtual bool take(const GeneratedToken& token) = 0;
  // The object, once all tokens were taken.
  virtual std::string body(const RequestSummary& summary) = 0;
  // Whether a stop string ended the answer: the request was cancelled because of it.
  virtual bool stopped() const = 0;
};

struct PreparedRequest {
  EngineRequest request;
  std::unique_ptr<BatchAnswer> answer;
};

// key: InputLine::key, from which ids and seeds follow.  The error is the refusal that a server would send.
RequestOr<PreparedRequest> prepare_request(const BatchLine& line, const std::string& key, const BatchContext& context);

// The error body of a status: 400 for what the request did wrong, 503 for too little memory, 500 for the rest.
RequestError request_error(const Status& status);

}  // namespace deepinfer::cli
