// Responses: response.* events around output items; or one response object.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/json_text.h"
#include "text/protocol/answer_writer.h"
#include "text/protocol/apply_patch_tool.h"
#include "text/protocol/custom_tool_input.h"

namespace deepinfer {
namespace {

class ResponsesWriter final : public AnswerWriter {
 public:
  explicit ResponsesWriter(const ResponsesRequest& request)
      : echo_(request.echo), namespaced_(request.namespaced_tools), has_apply_patch_(request.has_apply_patch) {}

  void open(const Answer& answer, EventSink sink) override {
    for (const char* type : {"response.created", "response.in_progress"}) {
      Json event = Json::object();
      event["response"] = response(answer, "in_progress");
      send(type, std::move(event), sink);
    }
  }

  void reasoning(const Answer& answer, std::string_view text, std::string_view, EventSink sink) override {
    if (open_ != Item::kReasoning) {
      close_item("completed", sink);
      Json item = Json::object();
      item["type"] = "reasoning";
      item["id"] = item_id("rs_", answer);
      item["status"] = "in_progress";
      item["content"] = Json::array();
      item["summary"] = Json::array();
      item["encrypted_content"] = answer.identity.id + "-" + std::to_string(items_.size());
      open_item(Item::kReasoning, std::move(item), sink);
      content_part("response.content_part.added", reasoning_part(""), sink);
    }
    text_ += text;
    delta("response.reasoning_text.delta", "\"content_index\":0,", text, {}, sink);
  }

  void content(const Answer& answer, std::string_view text, std::string_view logprobs, EventSink sink) override {
    if (open_ != Item::kMessage) {
      close_item("completed", sink);
      Json item = Json::object();
      item["type"] = "message";
      item["id"] = item_id("msg_", answer);
      item["status"] = "in_progress";
      item["role"] = "assistant";
      item["phase"] = "final_answer";
      item["content"] = Json::array();
      open_item(Item::kMessage, std::move(item), sink);
      content_part("response.content_part.added", text_part("", Json::array()), sink);
    }
    text_ += text;
    if (!logprobs.empty()) logprobs_.append(logprobs_.empty() ? "" : ",").append(logprobs);
    std::string list = "\"logprobs\":[";
    list.append(logprobs).append("],");
    delta("response.output_text.delta", "\"content_index\":0,", text, list, sink);
  }

  void call(const Answer& answer, EventSink sink) override {
    if (open_ == Item::kMessage) items_.back()["phase"] = "commentary";
    close_item("completed", sink);
    const AnswerCall& call = answer.calls.back();
    const bool custom = has_apply_patch_ && call.name == kApplyPatchName;
    Json item = Json::object();
    item["type"] = custom ? "custom_tool_call" : "function_call";
    item["id"] = item_id(custom ? "ctc_" : "fc_", answer);
    item["status"] = "in_progress";
    item["call_id"] = call.id;
    if (const auto tool = namespaced_.find(call.name); tool != namespaced_.end()) {
      item["name"] = tool->second.name;
      item["namespace"] = tool->second.space;
    } else {
      item["name"] = call.name;
    }
    item[custom ? "input" : "arguments"] = "";
    if (custom) custom_input_.emplace();
    open_item(custom ? Item::kCustomCall : Item::kFunctionCall, std::move(item), sink);
  }

  void arguments(const Answer&, std::string_view text, EventSink sink) override {
    if (open_ == Item::kFunctionCall) {
      text_ += text;
      delta("response.function_call_arguments.delta", {}, text, {}, sink);
    } else if (open_ == Item::kCustomCall) {
      const std::string piece = custom_input_->push(text);
      if (!piece.empty()) delta("response.custom_tool_call_input.delta", {}, piece, {}, sink);
    }
  }

  void call_end(const Answer&, EventSink sink) override { close_item("completed", sink); }

  void close(const Answer& answer, EventSink sink) override {
    const bool complete = answer.end == AnswerEnd::kStop;
    const char* status = complete ? "completed" : "incomplete";
    close_item(status, sink);
    Json event = Json::object();
    event["response"] = response(answer, status);
    send(complete ? "response.completed" : "response.incomplete", std::move(event), sink);
  }

  std::string object(const Answer& answer) const override {
    return dump_compact(response(answer, answer.end == AnswerEnd::kStop ? "completed" : "incomplete"));
  }

 private:
  enum class Item { kNone, kReasoning, kMessage, kFunctionCall, kCustomCall };

  std::string item_id(std::string_view prefix, const Answer& answer) const {
    return std::string(prefix) + answer.identity.id + "_" + std::to_string(items_.size());
  }

  static Json reasoning_part(const std::string& text) {
    Json part = Json::object();
    part["type"] = "reasoning_text";
    part["text"] = text;
    return part;
  }

  static Json text_part(const std::string& text, Json logprobs) {
    Json part = Json::object();
    part["type"] = "output_text";
    part["annotations"] = Json::array();
    part["logprobs"] = std::move(logprobs);
    part["text"] = text;
    return part;
  }

  void send(std::string_view type, Json fields, EventSink sink) {
    Json event = Json::object();
    event["type"] = type;
    for (auto& [key, value] : fields.get_ref<Json::object_t&>()) event[key] = std::move(value);
    event["sequence_number"] = sequence_++;
    sink(type, dump_compact(event));
  }

  // The fields that say which item an event is about.
  Json about_item() const {
    Json fields = Json::object();
    fields["item_id"] = items_.back()["id"];
    fields["output_index"] = items_.size() - 1;
    return fields;
  }

  void open_item(Item kind, Json item, EventSink sink) {
    open_ = kind;
    text_.clear();
    logprobs_.clear();
    items_.push_back(std::move(item));
    Json fields = Json::object();
    fields["item"] = items_.back();
    fields["output_index"] = items_.size() - 1;
    send("response.output_item.added", std::move(fields), sink);
  }

  void content_part(std::string_view type, Json part, EventSink sink) {
    Json fields = about_item();
    fields["content_index"] = 0;
    fields["part"] = std::move(part);
    send(type, std::move(fields), sink);
  }

  void delta(std::string_view type, std::string_view before, std::string_view text, std::string_view after,
             EventSink sink) {
    event_.assign("{\"type\":\"").append(type).append("\",").append(before).append("\"delta\":");
    append_json_string(event_, text);
    event_ += ",\"item_id\":";
    append_json_string(event_, items_.back()["id"].get_ref<const std::string&>());
    event_.append(",").append(after).append("\"output_index\":").append(std::to_string(items_.size() - 1));
    event_.append(",\"sequence_number\":").append(std::to_string(sequence_++)).append("}");
    sink(type, event_);
  }

  void close_item(const char* status, EventSink sink) {
    if (open_ == Item::kNone) return;
    Json& item = items_.back();
    Json done = about_item();
    switch (open_) {
      case Item::kReasoning: {
        done["content_index"] = 0;
        done["text"] = text_;
        send("response.reasoning_text.done", std::move(done), sink);
        item["content"].push_back(reasoning_part(text_));
        content_part("response.content_part.done", item["content"][0], sink);
        break;
      }
      case Item::kMessage: {
        Json logprobs = Json::parse("[" + logprobs_ + "]");
        done["content_index"] = 0;
        done["logprobs"] = logprobs;
        done["text"] = text_;
        send("response.output_text.done", std::move(done), sink);
        item["content"].push_back(text_part(text_, std::move(logprobs)));
        content_part("response.content_part.done", item["content"][0], sink);
        break;
      }
      case Item::kFunctionCall:
        done["arguments"] = item["arguments"] = text_;
        send("response.function_call_arguments.done", std::move(done), sink);
        break;
      case Item::kCustomCall:
        done["input"] = item["input"] = custom_input_->text();
        send("response.custom_tool_call_input.done", std::move(done), sink);
        break;
      case Item::kNone:
        break;
    }
    item["status"] = status;
    open_ = Item::kNone;
    Json fields = Json::object();
    fields["item"] = item;
    fields["output_index"] = items_.size() - 1;
    send("response.output_item.done", std::move(fields), sink);
  }

  Json response(const Answer& answer, std::string_view status) const {
    const bool ended = status != "in_progress";
    Json out = Json::object();
    out["id"] = answer.identity.id;
    out["object"] = "response";
    out["created_at"] = answer.identity.created;
    out["status"] = status;
    out["background"] = false;
    out["completed_at"] = ended ? Json(answer.completed) : Json(nullptr);
    out["content_filters"] = nullptr;
    out["error"] = nullptr;
    out["frequency_penalty"] = 0.0;
    out["incomplete_details"] = nullptr;
    if (status == "incomplete") {
      out["incomplete_details"] = Json::object();
      out["incomplete_details"]["reason"] = answer.end == AnswerEnd::kLength ? "max_output_tokens" : "content_filter";
    }
    out["instructions"] = echo_.at("instructions");
    out["max_output_tokens"] = echo_.at("max_output_tokens");
    out["max_tool_calls"] = nullptr;
    out["model"] = answer.identity.model;
    out["moderation"] = nullptr;
    out["output"] = items_;
    out["parallel_tool_calls"] = true;
    out["presence_penalty"] = 0.0;
    out["previous_response_id"] = nullptr;
    out["prompt_cache_key"] = nullptr;
    out["prompt_cache_retention"] = nullptr;
    out["reasoning"] = echo_.at("reasoning");
    out["safety_identifier"] = nullptr;
    out["service_tier"] = "default";
    out["store"] = false;
    for (const char* key : {"temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p"}) {
      out[key] = echo_.at(key);
    }
    out["truncation"] = "disabled";
    out["usage"] = ended ? usage(answer) : Json(nullptr);
    out["user"] = echo_.at("user");
    out["metadata"] = Json::object();
    return out;
  }

  static Json usage(const Answer& answer) {
    Json out = Json::object();
    out["input_tokens"] = answer.prompt.prompt_tokens;
    out["input_tokens_details"]["cached_tokens"] = answer.prompt.cached_tokens;
    out["output_tokens"] = answer.output_tokens;
    Json& details = out["output_tokens_details"];
    details["reasoning_tokens"] = answer.thinking ? answer.reasoning_tokens : 0;
    if (answer.drafts) {
      details["accepted_prediction_tokens"] = answer.drafts->accepted;
      details["rejected_prediction_tokens"] = answer.drafts->drafted - answer.drafts->accepted;
    }
    out["total_tokens"] = answer.prompt.prompt_tokens + answer.output_tokens;
    return out;
  }

  Json echo_;
  std::map<std::string, ResponsesRequest::NamespacedTool> namespaced_;
  bool has_apply_patch_;

  std::vector<Json> items_;
  Item open_ = Item::kNone;  // the kind of items_.back() while it grows
  std::string text_;         // its text so far
  std::string logprobs_;
  std::optional<CustomToolInput> custom_input_;
  int64_t sequence_ = 0;
  std::string event_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_responses_writer(const ResponsesRequest& request) {
  return std::make_unique<ResponsesWriter>(request);
}

}  // namespace deepinfer
