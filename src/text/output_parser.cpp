#include "text/output_parser.h"

#include <algorithm>
#include <utility>

#include "text/json_text.h"
#include "text/output_patterns.h"

namespace deepinfer {

using Kind = OutputEvent::Kind;

struct OutputParser::State {
  explicit State(const OutputParserOptions& options) : patterns(make_output_patterns(options)) {
    enter(initial_state(options));
  }

  static ParseState initial_state(const OutputParserOptions& options) {
    const bool json = options.json_output;
    switch (options.start) {
      case OutputStart::kContent:
        return json ? ParseState::kProseLead : ParseState::kContentLead;
      case OutputStart::kContentContinued:
        return json ? ParseState::kProse : ParseState::kContent;
      case OutputStart::kReasoning:
        return ParseState::kReasoningLead;
      case OutputStart::kReasoningContinued:
        return ParseState::kReasoning;
      case OutputStart::kTools:
        return ParseState::kTools;
    }
    return ParseState::kContent;
  }

  const std::vector<OutputPattern>& active() const { return patterns[static_cast<size_t>(state)]; }

  void enter(ParseState next) {
    state = next;
    first_byte = true;
    progress.assign(active().size(), {});
  }

  bool in_prose() const {
    return state == ParseState::kProse || state == ParseState::kProseLead || state == ParseState::kJsonDone;
  }

  void emit(OutputParser::Sink sink, Kind kind, std::string_view text, size_t begin, size_t end) const {
    sink({kind, text, kind >= Kind::kToolCallBegin ? call : -1, base + begin, base + end});
  }

  // What the state does with held[released, end): text that is part of no pattern.
  void release(size_t end, OutputParser::Sink sink) {
    if (end <= released) return;
    const size_t begin = std::exchange(released, end);
    const std::string_view text = std::string_view(held).substr(begin, end - begin);
    switch (state) {
      case ParseState::kReasoningLead:
      case ParseState::kReasoning:
        emit(sink, Kind::kReasoning, text, begin, end);
        return;
      case ParseState::kContentLead:
      case ParseState::kContent:
      case ParseState::kJson:
        emit(sink, Kind::kContent, text, begin, end);
        return;
      case ParseState::kProseLead:
      case ParseState::kProse:
      case ParseState::kJsonDone:
        for (size_t i = 0; i < pieces.size(); ++i) {
          const size_t piece_end = i + 1 < pieces.size() ? pieces[i + 1] : held.size();
          if (pieces[i] < end && piece_end > begin) {
            emit(sink, Kind::kContent, " ", std::max(begin, pieces[i]), std::min(end, piece_end));
          }
        }
        return;
      case ParseState::kCallName:
        name += text;
        return;
      case ParseState::kParameterName:
      case ParseState::kValueString:
        // The reference copies names as they are; escaping them keeps the arguments JSON and changes no plain name.
        scratch.clear();
        append_json_escaped(scratch, text);
        emit(sink, Kind::kToolArguments, scratch, begin, end);
        return;
      case ParseState::kValueJson:
        emit(sink, Kind::kToolArguments, text, begin, end);
        return;
      case ParseState::kTools:
      case ParseState::kCallFirst:
      case ParseState::kCallNext:
      case ParseState::kParameterType:
      case ParseState::kDone:
      case ParseState::kCount:
        return;
    }
  }

  // held[begin, end) completes `pattern`.
  void apply(const OutputPattern& pattern, size_t begin, size_t end, OutputParser::Sink sink) {
    release(begin, sink);
    released = end;
    switch (pattern.effect) {
      case OutputPattern::Effect::kDrop:
        break;
      case OutputPattern::Effect::kStop:
        stop = pattern.stop;
        break;
      case OutputPattern::Effect::kContent:
        emit(sink, Kind::kContent, pattern.literal, begin, end);
        break;
      case OutputPattern::Effect::kBeginCall:
        ++call;
        name.clear();
        emit(sink, Kind::kToolCallBegin, {}, begin, end);
        break;
      case OutputPattern::Effect::kNameCall:
        ++named_calls;
        emit(sink, Kind::kToolCall, name, begin, end);
        break;
      case OutputPattern::Effect::kArguments:
        emit(sink, Kind::kToolArguments, pattern.text, begin, end);
        break;
      case OutputPattern::Effect::kEndCall:
        emit(sink, Kind::kToolArguments, pattern.text, begin, end);
        emit(sink, Kind::kToolCallEnd, {}, end, end);
        break;
    }
    enter(pattern.next);
  }

  void scan(OutputParser::Sink sink) {
    while (scanned < held.size() && state != ParseState::kDone) {
      const char byte = held[scanned++];
      const bool first = std::exchange(first_byte, false);
      const std::vector<OutputPattern>& candidates = active();
      const OutputPattern* complete = nullptr;
      size_t length = 0;
      for (size_t i = 0; i < candidates.size(); ++i) {
        if (progress[i].advance(candidates[i], byte, first)) {
          complete = &candidates[i];
          length = progress[i].length();
          break;
        }
      }
      if (complete != nullptr) apply(*complete, scanned - length, scanned, sink);
    }
    if (state == ParseState::kDone) scanned = released = held.size();
  }

  // Everything before the longest partial match goes out.  Prose leaves in whole pieces, since each becomes one space.
  void release_settled(OutputParser::Sink sink) {
    size_t longest = 0;
    for (const PatternProgress& one : progress) longest = std::max(longest, one.length());
    size_t end = held.size() - longest;
    if (longest > 0 && in_prose()) {
      const auto after = std::upper_bound(pieces.begin(), pieces.end(), end);
      if (after != pieces.begin()) end = *std::prev(after);
    }
    release(end, sink);
  }

  void forget_released() {
    held.erase(0, released);
    base += released;
    scanned -= released;
    size_t kept = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const size_t piece_end = i + 1 < pieces.size() ? pieces[i + 1] : held.size() + released;
      if (piece_end > released) pieces[kept++] = pieces[i] > released ? pieces[i] - released : 0;
    }
    pieces.resize(kept);
    released = 0;
  }

  OutputPatterns patterns;
  ParseState state = ParseState::kDone;
  std::vector<PatternProgress> progress;
  bool first_byte = true;

  std::string held;            // input that is not released yet
  uint64_t base = 0;           // place of held[0] in the whole output
  size_t scanned = 0;          // held[0, scanned) went through the patterns
  size_t released = 0;         // held[0, released) went out
  std::vector<size_t> pieces;  // where the pieces in `held` begin

  int call = -1;
  int named_calls = 0;
  int stop = -1;
  std::string name;
  std::string scratch;
};

OutputParser::OutputParser(const OutputParserOptions& options) : state_(std::make_unique<State>(options)) {}
OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;

bool OutputParser::push(std::string_view text, Sink sink) {
  State& state = *state_;
  if (!text.empty()) {
    state.pieces.push_back(state.held.size());
    state.held += text;
    state.scan(sink);
    if (state.state != ParseState::kDone) state.release_settled(sink);
    state.forget_released();
  }
  return state.stop < 0;
}

void OutputParser::finish(Sink sink) {
  State& state = *state_;
  state.release(state.held.size(), sink);
  state.forget_released();
  state.enter(ParseState::kDone);
}

int OutputParser::matched_stop() const {
  return state_->stop;
}

int OutputParser::tool_calls() const {
  return state_->named_calls;
}

}  // namespace deepinfer
