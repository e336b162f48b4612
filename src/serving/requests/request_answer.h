// RequestAnswer: what becomes of the tokens of one request: the events of its stream, or the one object that answers
// it.  Made by prepare_request(); fed by whoever runs the request, one call at a time.
#pragma once

#include <span>
#include <string>

#include "engine/engine.h"
#include "text/protocol/answer_writer.h"

namespace deepinfer::serving {

class RequestAnswer {
 public:
  virtual ~RequestAnswer() = default;

  // The opening events; once, before everything else.  cached_tokens: of the prompt, as far as known.  Callers without
  // a stream give a sink that does nothing, here and below.
  virtual void open(int64_t cached_tokens, EventSink sink) = 0;
  // Of the tokens of the choice's prompt but the first, where the request asked for them.
  virtual void take_prompt_logprobs(int choice, std::span<const GeneratedToken> tokens) = 0;
  // The next token of a choice, end tokens included.  False: that answer is over, later tokens are no part of it.
  virtual bool take(int choice, const GeneratedToken& token, EventSink sink) = 0;
  // Whether a stop string ended the choice: whoever runs the request then cancels it.
  virtual bool stopped(int choice) const = 0;
  // The end of a choice, once; with that of the last one also the closing events of the request.
  virtual void end(int choice, const RequestSummary& summary, EventSink sink) = 0;
  // The whole answer, once every choice has ended.
  virtual std::string object() const = 0;
};

}  // namespace deepinfer::serving
