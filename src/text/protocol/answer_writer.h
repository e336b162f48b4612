// AnswerWriter: the form that one protocol gives to an answer, as a stream of events and as one object.
// Implemented for the three protocols; driven by AnswerStream.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "text/protocol/answer.h"
#include "text/protocol/inference_request.h"
#include "text/protocol/responses_request.h"

namespace deepinfer {

// One server-sent event.  `event` is empty where the protocol has no names.
using EventSink = FunctionRef<void(std::string_view event, std::string_view data)>;

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // Called in this order; `answer` already contains what the call announces.  `logprobs` are JSON objects joined by
  // ",".
  virtual void open(const Answer& answer, EventSink sink) = 0;
  virtual void reasoning(const Answer& answer, std::string_view text, std::string_view logprobs, EventSink sink) = 0;
  virtual void content(const Answer& answer, std::string_view text, std::string_view logprobs, EventSink sink) = 0;
  // The last call of `answer` begins, grows, is closed.
  virtual void call(const Answer& answer, EventSink sink) = 0;
  virtual void arguments(const Answer& answer, std::string_view text, EventSink sink) = 0;
  virtual void call_end(const Answer& answer, EventSink sink) = 0;
  virtual void close(const Answer& answer, EventSink sink) = 0;

  // The answer of a request that does not stream, once it is complete.
  virtual std::string object(const Answer& answer) const = 0;
};

std::unique_ptr<AnswerWriter> make_chat_completions_writer(const InferenceRequest& request);
// Several answers to one Chat Completions request.  Their writers leave the end of the stream to this: the usage of all
// in a chunk without choices, where it was asked for, and "[DONE]".  Answers are in the order of their choices.
void end_chat_completions(std::span<const Answer* const> answers, bool include_usage, EventSink sink);
std::string chat_completions_object(std::span<const Answer* const> answers);

std::unique_ptr<AnswerWriter> make_responses_writer(const ResponsesRequest& request);
std::unique_ptr<AnswerWriter> make_messages_writer(const InferenceRequest& request);

// An event as it goes over the wire: "event: X\n" where it has a name, "data: ...\n\n".
void append_server_sent_event(std::string& out, std::string_view event, std::string_view data);

}  // namespace deepinfer
