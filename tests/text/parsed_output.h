// What an OutputParser makes of a text, joined over all events: equal for every way of cutting the text.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "text/output_parser.h"

namespace deepinfer {

struct ParsedCall {
  std::string name;
  std::string arguments;
  bool closed = false;
  bool operator==(const ParsedCall&) const = default;
};

struct ParsedOutput {
  std::string reasoning;
  std::string content;
  std::vector<ParsedCall> calls;
  int begun = 0;  // calls, named or not
  int stop = -1;
  bool operator==(const ParsedOutput&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const ParsedOutput& parsed) {
  out << "reasoning [" << parsed.reasoning << "] content [" << parsed.content << "] stop " << parsed.stop;
  for (const ParsedCall& call : parsed.calls) out << "\n  " << call.name << " " << call.arguments << " " << call.closed;
  return out;
}

class ParsedOutputCollector {
 public:
  explicit ParsedOutputCollector(const OutputParserOptions& options) : parser_(options) {}

  void push(std::string_view text) {
    if (running_) running_ = parser_.push(text, [&](const OutputEvent& event) { add(event); });
  }
  ParsedOutput finish() {
    parser_.finish([&](const OutputEvent& event) { add(event); });
    parsed_.stop = parser_.matched_stop();
    return parsed_;
  }
  const ParsedOutput& so_far() const { return parsed_; }
  bool running() const { return running_; }

 private:
  void add(const OutputEvent& event) {
    switch (event.kind) {
      case OutputEvent::Kind::kReasoning:
        parsed_.reasoning += event.text;
        break;
      case OutputEvent::Kind::kContent:
        parsed_.content += event.text;
        break;
      case OutputEvent::Kind::kToolCallBegin:
        ++parsed_.begun;
        break;
      case OutputEvent::Kind::kToolCall:
        parsed_.calls.push_back({std::string(event.text), {}, false});
        break;
      case OutputEvent::Kind::kToolArguments:
        parsed_.calls.at(static_cast<size_t>(event.call)).arguments += event.text;
        break;
      case OutputEvent::Kind::kToolCallEnd:
        parsed_.calls.at(static_cast<size_t>(event.call)).closed = true;
        break;
    }
  }

  OutputParser parser_;
  ParsedOutput parsed_;
  bool running_ = true;
};

inline ParsedOutput parse_pieces(const OutputParserOptions& options, const std::vector<std::string_view>& pieces) {
  ParsedOutputCollector collector(options);
  for (const std::string_view piece : pieces) collector.push(piece);
  return collector.finish();
}

inline ParsedOutput parse_bytewise(const OutputParserOptions& options, std::string_view text) {
  ParsedOutputCollector collector(options);
  for (size_t i = 0; i < text.size(); ++i) collector.push(text.substr(i, 1));
  return collector.finish();
}

}  // namespace deepinfer
