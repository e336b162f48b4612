#include "text/output_patterns.h"

#include <utility>

#include "text/prompt_template.h"

namespace deepinfer {
namespace {

using Effect = OutputPattern::Effect;

std::vector<size_t> borders_of(std::string_view literal) {
  std::vector<size_t> borders(literal.size(), 0);
  for (size_t i = 1, k = 0; i < literal.size(); ++i) {
    while (k > 0 && literal[i] != literal[k]) k = borders[k - 1];
    if (literal[i] == literal[k]) ++k;
    borders[i] = k;
  }
  return borders;
}

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text += part;
  return text;
}

class PatternTable {
 public:
  explicit PatternTable(const OutputParserOptions& options) : options_(options) {}

  OutputPatterns build() {
    const ParseState after_reasoning = options_.json_output ? ParseState::kProseLead : ParseState::kContentLead;
    for (const ParseState state : {ParseState::kReasoningLead, ParseState::kReasoning}) {
      add_opener(state);
      if (state == ParseState::kReasoningLead) add_leading_line_feed(state);
      add(state, {.literal = std::string(token::kEndThink), .next = after_reasoning, .swallows_line_feeds = true});
    }
    for (const ParseState state : {ParseState::kContentLead, ParseState::kContent}) {
      add_stops(state);
      add_opener(state);
      if (state == ParseState::kContentLead) add_leading_line_feed(state);
      add(state, {.literal = std::string(token::kEndThink), .next = ParseState::kContent});
    }
    for (const ParseState state : {ParseState::kProseLead, ParseState::kProse}) {
      add(state, {.literal = "```json\n", .next = ParseState::kJson});
      add(state, {.literal = "```\n", .next = ParseState::kJson});
      add(state, {.literal = "{", .next = ParseState::kJson, .effect = Effect::kContent});
      add(state, {.literal = "[", .next = ParseState::kJson, .effect = Effect::kContent});
      add_opener(state);
      if (state == ParseState::kProseLead) add_leading_line_feed(state);
      add(state, {.literal = std::string(token::kEndThink), .next = ParseState::kProse});
    }
    add_stops(ParseState::kJson);
    add(ParseState::kJson, {.literal = "\n```", .next = ParseState::kJsonDone});
    add_opener(ParseState::kJsonDone);
    add_call_states();
    return std::move(patterns_);
  }

 private:
  void add(ParseState state, OutputPattern pattern) {
    pattern.borders = borders_of(pattern.literal);
    patterns_[static_cast<size_t>(state)].push_back(std::move(pattern));
  }

  void add_stops(ParseState state) {
    for (size_t i = 0; i < options_.stop.size(); ++i) {
      if (options_.stop[i].empty()) continue;
      add(state, {.literal = options_.stop[i],
                  .next = ParseState::kDone,
                  .effect = Effect::kStop,
                  .stop = static_cast<int>(i)});
    }
  }

  // The name of the block is not looked at: the markup token alone opens it.
  void add_opener(ParseState state) {
    if (!options_.parse_tool_calls) return;
    add(state, {.literal = joined({"<", token::kDsml}), .next = ParseState::kTools, .swallows_line_feeds = true});
  }

  void add_leading_line_feed(ParseState state) {
    add(state, {.literal = "\n", .next = state, .first_byte_only = true});
  }

  void add_call_states() {
    using enum ParseState;
    const std::string close = joined({"</", token::kDsml});
    add(kTools, {.literal = "invoke name=\"", .next = kCallName, .effect = Effect::kBeginCall});
    add(kTools, {.literal = close + "tool_calls>", .next = kDone});  // the spelling of V4
    add(kTools, {.literal = close + " calls>", .next = kDone});
    add(kCallName, {.literal = "\"", .next = kCallFirst, .effect = Effect::kNameCall});
    const auto arguments = [&](ParseState state, std::string literal, ParseState next, std::string_view text) {
      add(state, {.literal = std::move(literal), .next = next, .effect = Effect::kArguments, .text = text});
    };
    arguments(kCallFirst, "parameter name=\"", kParameterName, "{\"");
    add(kCallFirst, {.literal = close, .next = kTools, .effect = Effect::kEndCall, .text = "{}"});
    arguments(kCallNext, "parameter name=\"", kParameterName, ", \"");
    add(kCallNext, {.literal = close, .next = kTools, .effect = Effect::kEndCall, .text = "}"});
    arguments(kParameterName, "\" string=\"", kParameterType, "\": ");
    arguments(kParameterType, "true\">", kValueString, "\"");
    add(kParameterType, {.literal = "false\">", .next = kValueJson});
    arguments(kValueString, close, kCallNext, "\"");
    add(kValueJson, {.literal = close, .next = kCallNext});
  }

  const OutputParserOptions& options_;
  OutputPatterns patterns_;
};

}  // namespace

OutputPatterns make_output_patterns(const OutputParserOptions& options) {
  return PatternTable(options).build();
}

bool PatternProgress::advance(const OutputPattern& pattern, char byte, bool first) {
  const std::string& literal = pattern.literal;
  if (pattern.first_byte_only && !first) return false;
  if (pattern.swallows_line_feeds && byte == '\n') {
    // A line feed that breaks a partial literal does not start a new run.
    line_feeds_ = matched_ == 0 ? line_feeds_ + 1 : 0;
    matched_ = 0;
    return false;
  }
  while (matched_ > 0 && literal[matched_] != byte) {
    matched_ = pattern.borders[matched_ - 1];
    line_feeds_ = 0;
  }
  if (literal[matched_] == byte) {
    ++matched_;
  } else {
    line_feeds_ = 0;
  }
  return matched_ == literal.size();
}

}  // namespace deepinfer
