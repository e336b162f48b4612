// Any bytes, any cuts: the same totals, no crash, and events that stay inside the input.  The first byte selects the
// options, the second seeds the cuts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/output_parser.h"

namespace {

using namespace deepinfer;

struct Totals {
  std::string reasoning;
  std::string content;
  std::vector<std::string> calls;  // name, 0, arguments
  int stop = -1;
  bool operator==(const Totals&) const = default;
};

class Collector {
 public:
  explicit Collector(const OutputParserOptions& options) : parser_(options) {}

  void push(std::string_view text) {
    given_ += text.size();
    if (running_) running_ = parser_.push(text, [&](const OutputEvent& event) { add(event); });
  }
  Totals finish() {
    parser_.finish([&](const OutputEvent& event) { add(event); });
    totals_.stop = parser_.matched_stop();
    DI_CHECK(static_cast<size_t>(parser_.tool_calls()) == totals_.calls.size(), "calls are counted");
    return totals_;
  }

 private:
  void add(const OutputEvent& event) {
    DI_CHECK(event.input_begin >= last_ && event.input_end >= event.input_begin && event.input_end <= given_,
             "events follow the input");
    last_ = event.input_begin;
    switch (event.kind) {
      case OutputEvent::Kind::kReasoning:
        totals_.reasoning += event.text;
        break;
      case OutputEvent::Kind::kContent:
        totals_.content += event.text;
        break;
      case OutputEvent::Kind::kToolCallBegin:
        break;
      case OutputEvent::Kind::kToolCall:
        totals_.calls.push_back(std::string(event.text) + '\0');
        break;
      case OutputEvent::Kind::kToolArguments:
        DI_CHECK(static_cast<size_t>(event.call) < totals_.calls.size() + 1, "arguments belong to a call");
        totals_.calls.back() += event.text;
        break;
      case OutputEvent::Kind::kToolCallEnd:
        totals_.calls.back() += '\x01';
        break;
    }
  }

  OutputParser parser_;
  Totals totals_;
  bool running_ = true;
  uint64_t given_ = 0;
  uint64_t last_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  OutputParserOptions options;
  constexpr OutputStart starts[] = {OutputStart::kContent, OutputStart::kReasoning, OutputStart::kContentContinued,
                                    OutputStart::kReasoningContinued, OutputStart::kTools};
  options.start = starts[data[0] % 5];
  options.parse_tool_calls = (data[0] & 0x20) != 0;
  options.json_output = (data[0] & 0x40) != 0;
  if ((data[0] & 0x80) != 0) options.stop = {"STOP", "aab", "\n\n", "</"};
  uint32_t random = data[1];
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);

  Collector whole(options);
  whole.push(text);
  Collector bytes(options);
  for (size_t i = 0; i < text.size(); ++i) bytes.push(text.substr(i, 1));
  Collector pieces(options);
  for (size_t at = 0; at < text.size();) {
    random = random * 1664525u + 1013904223u;
    const size_t length = 1 + (random >> 24) % 17;
    pieces.push(text.substr(at, length));
    at += length;
  }
  Totals expected = whole.finish();
  Totals single = bytes.finish();
  Totals some = pieces.finish();
  if (options.json_output) {  // each piece of prose is one space there
    for (Totals* totals : {&expected, &single, &some}) std::erase(totals->content, ' ');
  }
  DI_CHECK(single == expected, "byte by byte");
  DI_CHECK(some == expected, "in pieces");
  return 0;
}
