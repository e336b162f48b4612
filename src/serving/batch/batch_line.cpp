#include "serving/batch/batch_line.h"

#include <utility>

#include "text/json_text.h"

namespace deepinfer::serving {
namespace {

constexpr std::pair<std::string_view, Protocol> kUrls[] = {
    {"/v1/chat/completions", Protocol::kChatCompletions},
    {"/v1/completions", Protocol::kCompletions},
    {"/v1/responses", Protocol::kResponses},
    {"/v1/messages", Protocol::kMessages},
};

const std::string* text_field(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get_ptr<const std::string*>() : nullptr;
}

}  // namespace

std::variant<BatchLine, BatchLineError> parse_batch_line(std::string_view line) {
  const Result<Json> json = parse_json(line);
  if (!json.ok()) return BatchLineError{{}, "invalid_json", "the line is not JSON: " + json.status().message()};
  if (!json->is_object()) return BatchLineError{{}, "invalid_line", "the line is no JSON object"};
  const std::string* custom_id = text_field(*json, "custom_id");
  if (custom_id == nullptr) return BatchLineError{{}, "invalid_line", "custom_id: expected a string"};
  const auto refuse = [&](const char* code, std::string message) {
    return BatchLineError{*custom_id, code, std::move(message)};
  };
  const std::string* method = text_field(*json, "method");
  if (method == nullptr || *method != "POST") return refuse("invalid_line", "method: expected \"POST\"");
  const std::string* url = text_field(*json, "url");
  if (url == nullptr) return refuse("invalid_line", "url: expected a string");
  const auto body = json->find("body");
  if (body == json->end() || !body->is_object()) return refuse("invalid_line", "body: expected an object");
  std::string known;
  for (const auto& [name, value] : kUrls) {
    if (*url == name) return BatchLine{*custom_id, *url, value, dump_compact(*body)};
    known.append(known.empty() ? "" : ", ").append(name);
  }
  return refuse("unknown_url", "url: `" + *url + "` is not known, known are " + known);
}

}  // namespace deepinfer::serving
