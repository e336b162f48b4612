// The answers of Chat Completions, Responses and Messages requests.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "serving/requests/answer_ends.h"
#include "serving/requests/request_answer.h"
#include "text/protocol/answer_stream.h"
#include "text/tokenizer.h"

namespace deepinfer::serving {

struct ProtocolAnswerOptions {
  bool logprobs = false;       // the request asked for them
  bool draft_usage = false;    // the usage tells of drafts
  bool include_usage = false;  // in the stream of a request with several choices
  int64_t prompt_tokens = 0;
  std::optional<int64_t> completed;  // the time that the answer tells, in seconds since 1970; else the real one
};

// streams: one for each choice.  tokenizer outlives the answer.
std::unique_ptr<RequestAnswer> make_protocol_answer(std::vector<AnswerStream> streams, const Tokenizer& tokenizer,
                                                    AnswerEnds ends, const ProtocolAnswerOptions& options);

}  // namespace deepinfer::serving
