// Every request of tests/data/encoding: the prompt to the byte, its control tokens, parameters, images and errors.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>

#include "golden_rows.h"
#include "text/prompt_encoding.h"
#include "text/protocol/chat_completions_request.h"
#include "text/protocol/messages_request.h"
#include "text/protocol/responses_request.h"
#include "text/tokenizer.h"

namespace deepinfer {
namespace {

ProtocolOptions options_of(const Json& row) {
  ProtocolOptions options;
  if (!row.contains("options")) return options;
  for (const auto& [key, value] : row["options"].items()) {
    if (key == "default_thinking_mode") {
      options.default_thinking = value.get<bool>();
    } else if (key == "reasoning_content_behavior" && value == "Reject") {
      options.reject_missing_reasoning = true;
    } else if (key == "responses_web_search" || key == "messages_web_search") {
      const auto rule = value == "Drop" ? ProtocolOptions::WebSearch::kDrop : ProtocolOptions::WebSearch::kReject;
      (key == "responses_web_search" ? options.responses_web_search : options.messages_web_search) = rule;
    } else {
      ADD_FAILURE() << "unknown option " << key << " = " << value;
    }
  }
  return options;
}

RequestOr<InferenceRequest> parse(const std::string& protocol, const std::string& body,
                                  const ProtocolOptions& options) {
  if (protocol == "chat_completions") return parse_chat_completions(body, options);
  if (protocol == "messages") return parse_messages(body, options);
  RequestOr<ResponsesRequest> request = parse_responses(body, options);
  if (auto* error = std::get_if<RequestError>(&request)) return *error;
  return std::get<ResponsesRequest>(request).inference;
}

std::string kind_name(RequestError::Kind kind) {
  switch (kind) {
    case RequestError::Kind::kJson:
      return "json";
    case RequestError::Kind::kBody:
      return "body";
    case RequestError::Kind::kRequest:
      return "request";
  }
  return "?";
}

// The part of a message that is ours: what a JSON Schema validator says may be worded differently.
std::string comparable(const std::string& message) {
  for (const std::string prefix :
       {"Invalid schema for function ", "Invalid json schema: ", "Invalid tool parameters schema : "}) {
    if (!message.starts_with(prefix)) continue;
    if (message.find("schema must be a JSON Schema of") != std::string::npos) return message;
    return message.substr(0, message.find(':') + 1);
  }
  return message;
}

std::string start_name(OutputStart start) {
  switch (start) {
    case OutputStart::kContent:
      return "content";
    case OutputStart::kReasoning:
      return "reasoning";
    case OutputStart::kContentContinued:
      return "content_continued";
    case OutputStart::kReasoningContinued:
      return "reasoning_continued";
    case OutputStart::kTools:
      return "tools";
  }
  return "?";
}

// As the goldens write them: absent keys are false, zero or empty, floats have 6 digits.
Json params_of(const InferenceRequest& request, OutputStart start) {
  const auto rounded = [](float value) { return std::round(static_cast<double>(value) * 1e6) / 1e6; };
  Json params = Json::object();
  const Conversation& conversation = request.conversation;
  params["thinking"] = conversation.thinking;
  static const char* const kEffort[] = {"low", "high", "xhigh", "max"};
  if (conversation.thinking) params["effort"] = kEffort[static_cast<int>(conversation.effort.level)];
  if (request.max_tokens) params["max_tokens"] = *request.max_tokens;
  if (request.temperature != 0) params["temperature"] = rounded(request.temperature);
  params["top_p"] = rounded(request.top_p);
  if (request.seed && *request.seed != 0) params["seed"] = *request.seed;
  if (!request.stop.empty()) params["stop"] = request.stop;
  if (request.logprobs) params["logprobs"] = true;
  if (request.top_logprobs != 0) params["top_logprobs"] = request.top_logprobs;
  if (request.stream) params["stream"] = true;
  static const char* const kFormat[] = {"text", "json_object", "json_schema", "regex"};
  params["response_format"] = kFormat[static_cast<int>(conversation.response_format.kind)];
  const OutputParserOptions parser = request.parser_options(start);
  if (parser.parse_tool_calls) params["parse_tool_calls"] = true;
  if (parser.json_output) params["parse_json"] = true;
  params["start"] = start_name(parser.start);
  if (request.constraint) {
    params["constraint"]["kind"] = to_string(request.constraint->kind);
    params["constraint"]["schema"] = request.constraint->schema;
  }
  return params;
}

Json images_of(const RenderedPrompt& prompt) {
  static const char* const kDetail[] = {"low", "high", "original", "auto"};
  Json images = Json::array();
  for (const ImageSource& image : prompt.images) {
    images.push_back({{"kind", image.kind == ImageSource::Kind::kUrl ? "url" : "data_url"},
                      {"detail", kDetail[static_cast<int>(image.detail)]},
                      {"path", image.field}});
  }
  return images;
}

void check_row(const std::string& protocol, const Json& row, const Tokenizer& tokenizer) {
  SCOPED_TRACE(protocol + ": " + row["name"].get<std::string>());
  std::string body;
  if (row.contains("raw_base64")) {
    body = from_base64(row["raw_base64"]);
  } else {
    body = row.contains("raw") ? row["raw"].get<std::string>() : row["request"].dump();
  }
  const RequestOr<InferenceRequest> outcome = parse(protocol, body, options_of(row));
  if (const auto* error = std::get_if<RequestError>(&outcome)) {
    ASSERT_TRUE(row.contains("error")) << "refused: " << error->message;
    EXPECT_EQ(error->http_status, row["error"]["status"].get<int>());
    EXPECT_EQ(kind_name(error->kind), row["error"]["kind"].get<std::string>()) << error->message;
    const std::string expected = row["error"]["message"];
    if (error->kind == RequestError::Kind::kRequest) {
      EXPECT_EQ(comparable(error->message), comparable(expected));
    } else {
      EXPECT_EQ(error->message.substr(0, error->message.find(':')), expected.substr(0, expected.find(':')));
    }
    const Json envelope = Json::parse(error->body());
    EXPECT_EQ(envelope["error"]["message"], error->message);
    EXPECT_EQ(envelope["error"]["type"], "invalid_request_error");
    EXPECT_EQ(envelope["error"]["code"], "invalid_request_error");
    EXPECT_TRUE(envelope["error"].contains("param") && envelope["error"]["param"].is_null());
    return;
  }
  ASSERT_FALSE(row.contains("error")) << "accepted, expected " << row["error"];
  const auto& request = std::get<InferenceRequest>(outcome);
  const Result<RenderedPrompt> prompt = encode_prompt(request.conversation);
  ASSERT_TRUE(prompt.ok()) << prompt.status().message();
  EXPECT_EQ(prompt->text, row["prompt"].get<std::string>());
  Json special = Json::array();
  for (const ByteRange& range : prompt->special) special.push_back({range.begin, range.end});
  EXPECT_EQ(special, row["special"]);
  // A different order of keys is no difference.
  EXPECT_EQ(nlohmann::json(params_of(request, prompt->start)), nlohmann::json(row["params"]));
  EXPECT_EQ(nlohmann::json(images_of(*prompt)), nlohmann::json(row.value("images", Json::array())));
  std::vector<int32_t> ids;
  const Status encoded = tokenizer.encode_segments(prompt->text, prompt->special, ids);
  ASSERT_TRUE(encoded.ok()) << encoded.message();
  EXPECT_EQ(Json(ids), row["tiny_ids"]);
}

class RequestGoldens : public testing::TestWithParam<std::pair<const char*, size_t>> {};

TEST_P(RequestGoldens, EveryRow) {
  const auto [protocol, count] = GetParam();
  const auto tokenizer = Tokenizer::load(std::string(DEEPINFER_TEST_MODEL) + "/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const std::vector<Json> rows = golden_rows(std::string(protocol) + ".jsonl");
  EXPECT_EQ(rows.size(), count);
  for (const Json& row : rows) check_row(protocol, row, **tokenizer);
}

INSTANTIATE_TEST_SUITE_P(Protocols, RequestGoldens,
                         testing::Values(std::pair{"chat_completions", 445}, std::pair{"responses", 152},
                                         std::pair{"messages", 150}),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace deepinfer
