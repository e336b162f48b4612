// A request of one of the protocols in the engine's terms, and its answer in the protocol's.  Called by batch jobs and
// the server, which thereby mean the same by the same body.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "serving/requests/request_answer.h"
#include "text/protocol/inference_request.h"
#include "text/protocol/request_error.h"
#include "text/tokenizer.h"

namespace deepinfer::serving {

enum class Protocol : uint8_t { kChatCompletions, kCompletions, kResponses, kMessages };

// What all requests to one model share.
struct RequestContext {
  const Tokenizer* tokenizer = nullptr;
  const Engine* engine = nullptr;
  std::vector<int32_t> end_tokens;
  ProtocolOptions protocol;
  int32_t draft_tokens = -1;
  SpeculativeSampling speculative_sampling = SpeculativeSampling::kExact;
  PrefixReplay prefix_replay = PrefixReplay::kExact;
  std::string fingerprint;
  bool draft_usage = false;  // usage tells of drafts, which depend on the company that a request had
};

// What one request gets from whoever runs it.
struct RequestIdentity {
  std::string id;                    // of the answer; unique
  uint64_t seed = 0;                 // where the request names none
  uint64_t random = 0;               // for ids of tool calls
  int64_t created = 0;               // seconds since 1970
  std::optional<int64_t> completed;  // what the answer tells; else the real time
  uint64_t tenant = 0;               // mixed into the salt of its prefixes; requests with other values share none
  int32_t highest_priority = kHighestPriority;  // that it may ask for
  int32_t base_priority = 0;                    // added to what it asks for
};

struct PreparedRequest {
  // One for each prompt, of its first choice; the others differ in EngineRequest::choice.  Answer i is choice
  // i % choices of prompt i / choices.
  std::vector<EngineRequest> prompts;
  int choices = 1;                     // for each prompt
  bool every_prompt_logprobs = false;  // of each choice; else of each prompt's first one
  bool stream = false;
  bool opens_with_first_token = false;  // its opening events tell what is known only then
  std::vector<std::string> ignored;     // members of the body that have no effect
  std::unique_ptr<RequestAnswer> answer;

  int64_t answers() const { return static_cast<int64_t>(prompts.size()) * choices; }
  int64_t prompt_tokens() const;
};

// The error is the refusal that the client gets.
RequestOr<PreparedRequest> prepare_request(Protocol protocol, std::string_view body, const RequestIdentity& identity,
                                           const RequestContext& context);

// The prompt's tokens alone, by the same rules.
RequestOr<std::vector<int32_t>> prompt_tokens(Protocol protocol, std::string_view body, const RequestContext& context);
// A text to be continued, as Completions takes it: a begin-of-sentence token is put before it unless it is there.
// allow_special: spellings of control tokens in the text are these tokens.
Result<std::vector<int32_t>> text_tokens(std::string_view text, bool allow_special, const Tokenizer& tokenizer);

// The error body of a status: 400 for what the request did wrong, 503 for too little memory, 500 for the rest.
RequestError request_error(const Status& status);

}  // namespace deepinfer::serving
