// Any output of a model, in any cuts, as the events of a stream: every event reads back from its bytes as it was
// written, its data is JSON, and the deltas joined are the text of the whole answer, which is JSON too.  The first byte
// selects protocol and end, the second seeds the cuts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "base/check.h"
#include "text/json_text.h"
#include "text/protocol/answer_stream.h"
#include "text/protocol/chat_completions_request.h"
#include "text/protocol/messages_request.h"
#include "text/protocol/responses_request.h"
#include "text/utf8.h"

namespace {

using namespace deepinfer;

constexpr std::string_view kParameters =
    R"({"type":"object","properties":{"city":{"type":"string"},"n":{"type":"integer"}}})";

struct Setting {
  std::unique_ptr<AnswerWriter> writer;
  InferenceRequest request;
};

Setting setting(uint8_t choice) {
  const ProtocolOptions options;
  const std::string model = R"({"model":"DeepSeek-V4.1-Flash","stream":true,)";
  const std::string parameters(kParameters);
  Setting out;
  switch (choice % 3) {
    case 0: {
      const auto parsed = parse_chat_completions(
          model +
              R"("messages":[{"role":"user","content":"q"}],"stop":["\n\nEnd"],"stream_options":{"include_usage":true},)" +
              R"("tools":[{"type":"function","function":{"name":"get_weather","parameters":)" + parameters + "}}]}",
          options);
      out.request = std::get<InferenceRequest>(parsed);
      out.writer = make_chat_completions_writer(out.request);
      break;
    }
    case 1: {
      const auto parsed =
          parse_responses(model + R"("input":"q","tools":[{"type":"function","name":"get_weather","parameters":)" +
                              parameters + R"(},{"type":"custom","name":"apply_patch"}]})",
                          options);
      const auto& responses = std::get<ResponsesRequest>(parsed);
      out.request = responses.inference;
      out.writer = make_responses_writer(responses);
      break;
    }
    default: {
      const auto parsed = parse_messages(
          model + R"("messages":[{"role":"user","content":"q"}],"tools":[{"name":"get_weather","input_schema":)" +
              parameters + "}]}",
          options);
      out.request = std::get<InferenceRequest>(parsed);
      out.writer = make_messages_writer(out.request);
    }
  }
  return out;
}

// The texts of the deltas of one kind of event.
void add_delta(const Json& data, std::string& reasoning, std::string& content) {
  const auto text = [](const Json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  if (const auto choices = data.find("choices"); choices != data.end()) {
    if (choices->empty()) return;
    const Json& delta = (*choices)[0]["delta"];
    reasoning += text(delta, "reasoning_content");
    content += text(delta, "content");
  } else if (data["type"] == "response.reasoning_text.delta") {
    reasoning += text(data, "delta");
  } else if (data["type"] == "response.output_text.delta") {
    content += text(data, "delta");
  } else if (data["type"] == "content_block_delta") {
    reasoning += text(data["delta"], "thinking");
    content += text(data["delta"], "text");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  Setting made = setting(data[0]);
  const OutputStart start = (data[0] & 0x40) != 0 ? OutputStart::kReasoning : OutputStart::kContent;
  AnswerIdentity identity;
  identity.id = "id";
  identity.model = "DeepSeek-V4.1-Flash";
  AnswerStream stream(std::move(made.writer), made.request.parser_options(start), start == OutputStart::kReasoning,
                      std::move(identity));
  std::string reasoning, content;
  bool done = false;
  const auto sink = [&](std::string_view event, std::string_view text) {
    std::string wire, expected;
    append_server_sent_event(wire, event, text);
    if (!event.empty()) expected.append("event: ").append(event).append("\n");
    expected.append("data: ").append(text).append("\n\n");
    DI_CHECK(wire == expected, "an event has its lines");
    DI_CHECK(std::count(wire.begin(), wire.end(), '\n') == (event.empty() ? 2 : 3), "data is one line");
    DI_CHECK(wire.find('\r') == wire.npos && is_valid_utf8(wire), "events are clean UTF-8");
    DI_CHECK(!done, "nothing comes behind the end");
    done = text == "[DONE]";
    if (done) return;
    const Result<Json> parsed = parse_json(text);
    DI_CHECK(parsed.ok() && parsed->is_object(), "data is JSON");
    DI_CHECK(event.empty() || (*parsed)["type"] == event, "an event is named after its type");
    add_delta(*parsed, reasoning, content);
  };
  std::string output;
  append_repaired_utf8({reinterpret_cast<const char*>(data) + 2, size - 2}, output);
  stream.open({7, 3}, sink);
  uint32_t seed = data[1] + 1u;
  for (std::string_view left = output; !left.empty();) {
    seed = seed * 1664525u + 1013904223u;
    size_t cut = std::min<size_t>(left.size(), 1 + (seed >> 28));
    while (cut < left.size() && (static_cast<uint8_t>(left[cut]) & 0xC0) == 0x80) ++cut;  // whole characters
    const bool goes_on = stream.push({std::string(left.substr(0, cut)), 1, {}}, sink);
    left.remove_prefix(cut);
    if (!goes_on) break;
  }
  stream.finish((data[0] & 0x80) != 0 ? AnswerEnd::kLength : AnswerEnd::kStop, [](std::string_view) { return 1; }, 1,
                sink);
  DI_CHECK(parse_json(stream.object()).ok(), "the whole answer is JSON");
  DI_CHECK(reasoning == stream.answer().reasoning, "the deltas are the reasoning");
  DI_CHECK(content == stream.answer().content, "the deltas are the content");
  return 0;
}
