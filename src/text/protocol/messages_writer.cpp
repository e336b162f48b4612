// Messages: message_start, content blocks, message_delta, message_stop; or one message object.
#include <string>
#include <utility>

#include "text/json_text.h"
#include "text/protocol/answer_writer.h"

namespace deepinfer {
namespace {

std::string_view stop_reason(const Answer& answer) {
  if (answer.stopped_by_string) return "stop_sequence";
  switch (answer.end) {
    case AnswerEnd::kStop:
      return answer.calls.empty() ? "end_turn" : "tool_use";
    case AnswerEnd::kLength:
      return "max_tokens";
    case AnswerEnd::kContentFilter:
      return "refusal";
  }
  return "end_turn";
}

Json usage(const Answer& answer, int64_t output_tokens) {
  Json out = Json::object();
  out["input_tokens"] = answer.prompt.prompt_tokens - answer.prompt.cached_tokens;
  out["cache_creation_input_tokens"] = 0;
  out["cache_read_input_tokens"] = answer.prompt.cached_tokens;
  out["output_tokens"] = output_tokens;
  out["service_tier"] = "standard";
  if (answer.drafts) {
    out["accepted_prediction_tokens"] = answer.drafts->accepted;
    out["rejected_prediction_tokens"] = answer.drafts->drafted - answer.drafts->accepted;
  }
  return out;
}

Json stop_sequence(const Answer& answer) {
  return answer.stopped_by_string ? Json(answer.stop) : Json(nullptr);
}

// A message without content.
Json envelope(const Answer& answer) {
  Json out = Json::object();
  out["id"] = answer.identity.id;
  out["type"] = "message";
  out["role"] = "assistant";
  out["model"] = answer.identity.model;
  out["content"] = Json::array();
  out["stop_reason"] = nullptr;
  out["stop_sequence"] = nullptr;
  return out;
}

class MessagesWriter final : public AnswerWriter {
 public:
  void open(const Answer& answer, EventSink sink) override {
    Json message = envelope(answer);
    message["usage"] = usage(answer, 0);
    Json event = Json::object();
    event["type"] = "message_start";
    event["message"] = std::move(message);
    send(event, sink);
    if (answer.begins_with_thinking) {
      start(Block::kThinking, Json{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, sink);
    }
  }

  void reasoning(const Answer& answer, std::string_view text, std::string_view, EventSink sink) override {
    if (block_ != Block::kThinking) {
      stop(answer, sink);
      start(Block::kThinking, Json{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, sink);
    }
    delta("thinking_delta", "thinking", text, sink);
  }

  void content(const Answer& answer, std::string_view text, std::string_view, EventSink sink) override {
    if (block_ != Block::kText) {
      stop(answer, sink);
      start(Block::kText, Json{{"type", "text"}, {"text", ""}}, sink);
    }
    delta("text_delta", "text", text, sink);
  }

  void call(const Answer& answer, EventSink sink) override {
    stop(answer, sink);
    const AnswerCall& call = answer.calls.back();
    start(Block::kToolUse, Json{{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", Json::object()}},
          sink);
  }

  void arguments(const Answer&, std::string_view text, EventSink sink) override {
    delta("input_json_delta", "partial_json", text, sink);
  }

  void call_end(const Answer& answer, EventSink sink) override { stop(answer, sink); }

  void close(const Answer& answer, EventSink sink) override {
    stop(answer, sink);
    Json event = Json::object();
    event["type"] = "message_delta";
    event["delta"]["stop_reason"] = stop_reason(answer);
    event["delta"]["stop_sequence"] = stop_sequence(answer);
    event["usage"] = usage(answer, answer.output_tokens);
    send(event, sink);
    send(Json{{"type", "message_stop"}}, sink);
  }

  std::string object(const Answer& answer) const override {
    Json message = envelope(answer);
    Json& content = message["content"];
    if (answer.begins_with_thinking) {
      content.push_back(Json{{"type", "thinking"}, {"thinking", answer.reasoning}, {"signature", answer.identity.id}});
    }
    if (!answer.content.empty()) content.push_back(Json{{"type", "text"}, {"text", answer.content}});
    for (const AnswerCall& call : answer.calls) {
      // Arguments that were cut or are no JSON object cannot be shown in this form.
      Result<Json> input = parse_json(call.arguments);
      content.push_back(Json{{"type", "tool_use"},
                             {"id", call.id},
                             {"name", call.name},
                             {"input", input.ok() && input->is_object() ? *std::move(input) : Json::object()}});
    }
    message["stop_reason"] = stop_reason(answer);
    message["stop_sequence"] = stop_sequence(answer);
    message["usage"] = usage(answer, answer.output_tokens);
    return dump_compact(message);
  }

 private:
  enum class Block { kNone, kThinking, kText, kToolUse };

  static void send(const Json& event, EventSink sink) {
    sink(event["type"].get_ref<const std::string&>(), dump_compact(event));
  }

  void start(Block block, Json content, EventSink sink) {
    block_ = block;
    Json event = Json::object();
    event["type"] = "content_block_start";
    event["index"] = index_;
    event["content_block"] = std::move(content);
    send(event, sink);
    if (index_ == 0) send(Json{{"type", "ping"}}, sink);
  }

  void stop(const Answer& answer, EventSink sink) {
    if (block_ == Block::kNone) return;
    if (block_ == Block::kThinking) delta("signature_delta", "signature", answer.identity.id, sink);
    block_ = Block::kNone;
    Json event = Json::object();
    event["type"] = "content_block_stop";
    event["index"] = index_++;
    send(event, sink);
  }

  void delta(std::string_view type, std::string_view field, std::string_view text, EventSink sink) {
    event_ = "{\"type\":\"content_block_delta\",\"index\":" + std::to_string(index_) + ",\"delta\":{\"type\":\"";
    event_.append(type).append("\",\"").append(field).append("\":");
    append_json_string(event_, text);
    event_ += "}}";
    sink("content_block_delta", event_);
  }

  Block block_ = Block::kNone;
  int64_t index_ = 0;  // of the open block, or of the next one
  std::string event_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_messages_writer(const InferenceRequest&) {
  return std::make_unique<MessagesWriter>();
}

}  // namespace deepinfer
