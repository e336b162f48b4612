// The states of output parsing and, for each, the patterns that end it (docs/chat-encoding.md, "Reading the output").
// Built once per answer; text/output_parser.cpp runs it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/output_parser.h"

namespace deepinfer {

enum class ParseState : uint8_t {
  kReasoningLead,  // "lead": line feeds at the very start are dropped
  kReasoning,
  kContentLead,
  kContent,
  kProseLead,  // JSON mode before the value: every piece of prose becomes one space
  kProse,
  kJson,
  kJsonDone,
  kTools,  // inside a block of calls, outside a call
  kCallName,
  kCallFirst,  // inside a call, no parameter yet
  kCallNext,   // inside a call, after a parameter
  kParameterName,
  kParameterType,
  kValueString,
  kValueJson,
  kDone,
  kCount,
};

struct OutputPattern {
  enum class Effect : uint8_t {
    kDrop,
    kStop,     // a stop string: `stop` says which
    kContent,  // the matched text itself is content
    kBeginCall,
    kNameCall,   // the name is complete
    kArguments,  // `text` is appended to the arguments
    kEndCall,    // the same, and the call is complete
  };

  std::string literal;
  ParseState next = ParseState::kDone;
  Effect effect = Effect::kDrop;
  std::string_view text = {};
  int stop = -1;
  bool swallows_line_feeds = false;  // the run of line feeds directly before the literal belongs to the match
  bool first_byte_only = false;      // matches only at the first byte in this state
  std::vector<size_t> borders = {};  // Knuth-Morris-Pratt: longest proper border of literal[0..i]
};

// The patterns of each state, in order of precedence.
using OutputPatterns = std::array<std::vector<OutputPattern>, static_cast<size_t>(ParseState::kCount)>;
OutputPatterns make_output_patterns(const OutputParserOptions& options);

// One pattern's progress through the text.
class PatternProgress {
 public:
  // Feeds the next byte; `first`: it is the first one in this state.  True when the pattern is complete.
  bool advance(const OutputPattern& pattern, char byte, bool first);
  // Bytes at the end of the text fed so far that belong to the (possibly partial) match.
  size_t length() const { return line_feeds_ + matched_; }

 private:
  size_t matched_ = 0;
  size_t line_feeds_ = 0;
};

}  // namespace deepinfer
