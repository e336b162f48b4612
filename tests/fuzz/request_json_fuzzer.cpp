// Any body of the three protocols: an answer or an error, never a crash; an accepted request can always be rendered,
// its control tokens are in order, and an error is valid JSON.  The first byte selects protocol and profile.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "base/check.h"
#include "text/json_text.h"
#include "text/prompt_encoding.h"
#include "text/protocol/chat_completions_request.h"
#include "text/protocol/messages_request.h"
#include "text/protocol/responses_request.h"

namespace {

using namespace deepinfer;

void check_error(const RequestError& error) {
  DI_CHECK(error.http_status == 400, "a request's error is 400");
  DI_CHECK(parse_json(error.body()).ok(), "an error is JSON");
}

void check_request(const InferenceRequest& request) {
  const Result<RenderedPrompt> prompt = encode_prompt(request.conversation);
  DI_CHECK(prompt.ok(), prompt.ok() ? "" : prompt.status().message());
  size_t end = 0;
  for (const ByteRange& range : prompt->special) {
    DI_CHECK(range.begin >= end && range.end > range.begin, "control tokens ascend");
    end = range.end;
  }
  DI_CHECK(end <= prompt->text.size(), "control tokens lie inside the text");
  DI_CHECK(prompt->images.size() == prompt->image_tokens.size(), "one placeholder an image");
  DI_CHECK(request.temperature >= 0 && request.temperature <= 2, "temperature");
  DI_CHECK(request.top_p > 0 && request.top_p <= 1, "top_p");
}

template <typename T>
void check_outcome(const RequestOr<T>& outcome) {
  if (const auto* error = std::get_if<RequestError>(&outcome)) return check_error(*error);
  if constexpr (std::is_same_v<T, ResponsesRequest>) {
    check_request(std::get<T>(outcome).inference);
    DI_CHECK(parse_json(dump_compact(std::get<T>(outcome).echo)).ok(), "the echo is JSON");
  } else {
    check_request(std::get<T>(outcome));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  ProtocolOptions options;
  if ((data[0] & 0x40) != 0) {
    options.profile = Profile::kExtended;
    options.reject_missing_reasoning = true;
    options.messages_web_search = ProtocolOptions::WebSearch::kDrop;
    options.responses_web_search = ProtocolOptions::WebSearch::kReject;
  }
  switch (data[0] % 3) {
    case 0:
      check_outcome(parse_chat_completions(body, options));
      break;
    case 1:
      check_outcome(parse_responses(body, options));
      break;
    default:
      check_outcome(parse_messages(body, options));
  }
  return 0;
}
