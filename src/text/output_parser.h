// OutputParser: splits generated text into reasoning, content and tool calls while it streams.
// Fed by whoever runs a request (command line, protocol layer) with detokenised text; one parser per answer.
// Any way of cutting the same text into pieces gives the same joined events (JSON mode: the same but for the number of
// spaces that stand for dropped prose).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "text/prompt_encoding.h"

namespace deepinfer {

struct OutputParserOptions {
  OutputStart start = OutputStart::kContent;  // RenderedPrompt::start
  bool parse_tool_calls = false;              // Conversation::tools_shown()
  bool json_output = false;                   // response format json_object: keep the JSON value, drop prose and fences
  std::vector<std::string> stop = {};         // stop strings; empty ones are ignored
};

struct OutputEvent {
  enum class Kind {
    kReasoning,      // text: the next piece of reasoning
    kContent,        // text: the next piece of content
    kToolCallBegin,  // a call has begun, its name is not complete yet
    kToolCall,       // text: the complete name
    kToolArguments,  // text: the next piece of the call's arguments (JSON)
    kToolCallEnd,    // the call was closed; a call that is cut off has no such event
  };
  Kind kind;
  std::string_view text;  // valid during the callback only
  int call = -1;          // index of the call, from 0 (kToolCallBegin and later)
  // Bytes of the input, counted from the start of the output, that this text was made from.
  uint64_t input_begin = 0;
  uint64_t input_end = 0;
};

class OutputParser {
 public:
  using Sink = FunctionRef<void(const OutputEvent&)>;

  explicit OutputParser(const OutputParserOptions& options);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;

  // Feeds the next piece; text of control tokens included, the end token excluded.  False: a stop string matched and
  // nothing more will come out; the caller should stop the generation.
  bool push(std::string_view text, Sink sink);
  // The output ended: emits what was held back because it might have become markup or a stop string.
  void finish(Sink sink);

  // The matched stop string (index into options.stop), or -1.
  int matched_stop() const;
  // Calls whose name was complete; with at least one, a natural end means "tool_calls".
  int tool_calls() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deepinfer
