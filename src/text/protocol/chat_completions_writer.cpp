// Chat Completions: chunks of type chat.completion.chunk, then "[DONE]"; or one chat.completion object.
#include <span>
#include <string>
#include <utility>

#include "text/json_text.h"
#include "text/protocol/answer_writer.h"

namespace deepinfer {
namespace {

std::string_view finish_reason(const Answer& answer) {
  if (answer.stopped_by_string) return "stop";
  switch (answer.end) {
    case AnswerEnd::kStop:
      return answer.calls.empty() ? "stop" : "tool_calls";
    case AnswerEnd::kLength:
      return "length";
    case AnswerEnd::kContentFilter:
      return "content_filter";
  }
  return "stop";
}

// Of all answers to one request; the prompt counts once.
void append_usage(std::string& out, std::span<const Answer* const> answers) {
  const Answer& answer = *answers.front();
  int64_t output_tokens = 0, reasoning_tokens = 0;
  DraftUsage drafts;
  for (const Answer* one : answers) {
    output_tokens += one->output_tokens;
    reasoning_tokens += one->reasoning_tokens;
    if (!one->drafts) continue;
    drafts.drafted += one->drafts->drafted;
    drafts.accepted += one->drafts->accepted;
  }
  const auto number = [&](std::string_view name, int64_t value) {
    out.append("\"").append(name).append("\":").append(std::to_string(value));
  };
  const PromptUsage& prompt = answer.prompt;
  out += '{';
  number("prompt_tokens", prompt.prompt_tokens);
  out += ',';
  number("completion_tokens", output_tokens);
  out += ',';
  number("total_tokens", prompt.prompt_tokens + output_tokens);
  out += ",\"prompt_tokens_details\":{";
  number("cached_tokens", prompt.cached_tokens);
  out += '}';
  if (answer.thinking || answer.drafts) {
    out += ",\"completion_tokens_details\":{";
    if (answer.thinking) number("reasoning_tokens", reasoning_tokens);
    if (answer.drafts) {
      if (answer.thinking) out += ',';
      number("accepted_prediction_tokens", drafts.accepted);
      out += ',';
      number("rejected_prediction_tokens", drafts.drafted - drafts.accepted);
    }
    out += '}';
  }
  out += ',';
  number("prompt_cache_hit_tokens", prompt.cached_tokens);
  out += ',';
  number("prompt_cache_miss_tokens", prompt.prompt_tokens - prompt.cached_tokens);
  out += '}';
}

void append_call(std::string& out, const Answer& answer, size_t index) {
  const AnswerCall& call = answer.calls[index];
  out += "{\"index\":" + std::to_string(index) + ",\"id\":";
  append_json_string(out, call.id);
  out += ",\"type\":\"function\",\"function\":{\"name\":";
  append_json_string(out, call.name);
  out += ",\"arguments\":";
  append_json_string(out, call.arguments);
  out += "}}";
}

void append_all_logprobs(std::string& out, const Answer& answer) {
  if (answer.content_logprobs.empty() && answer.reasoning_logprobs.empty()) {
    out += "null";
    return;
  }
  out += '{';
  if (!answer.content_logprobs.empty()) out.append("\"content\":[").append(answer.content_logprobs).append("]");
  if (!answer.reasoning_logprobs.empty()) {
    if (!answer.content_logprobs.empty()) out += ',';
    out.append("\"reasoning_content\":[").append(answer.reasoning_logprobs).append("]");
  }
  out += '}';
}

// {"index":...,"message":...,"logprobs":...,"finish_reason":...}
void append_choice(std::string& out, const Answer& answer) {
  out += "{\"index\":" + std::to_string(answer.identity.choice) + ",\"message\":{\"role\":\"assistant\",\"content\":";
  append_json_string(out, answer.content);
  if (answer.begins_with_thinking) {
    out += ",\"reasoning_content\":";
    append_json_string(out, answer.reasoning);
  }
  if (!answer.calls.empty()) {
    out += ",\"tool_calls\":[";
    for (size_t i = 0; i < answer.calls.size(); ++i) {
      if (i > 0) out += ',';
      append_call(out, answer, i);
    }
    out += ']';
  }
  out += "},\"logprobs\":";
  append_all_logprobs(out, answer);
  out.append(",\"finish_reason\":\"").append(finish_reason(answer)).append("\"}");
}

// Every chunk begins like this, up to its choices.
std::string chunk_head(const AnswerIdentity& identity) {
  std::string head = "{\"id\":";
  append_json_string(head, identity.id);
  head += ",\"object\":\"chat.completion.chunk\",\"created\":" + std::to_string(identity.created) + ",\"model\":";
  append_json_string(head, identity.model);
  head += ",\"system_fingerprint\":";
  append_json_string(head, identity.fingerprint);
  return head;
}

class ChatCompletionsWriter final : public AnswerWriter {
 public:
  explicit ChatCompletionsWriter(const InferenceRequest& request)
      : announces_usage_(request.include_usage || !request.stream), alone_(request.generation.n == 1) {}

  void open(const Answer& answer, EventSink sink) override {
    head_ = chunk_head(answer.identity);
    head_ += ",\"choices\":[{\"index\":" + std::to_string(answer.identity.choice) + ",\"delta\":";
    begin();
    if (answer.begins_with_thinking) {
      chunk_ += "{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"\"}";
    } else {
      chunk_ += answer.thinking ? "{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":null}"
                                : "{\"role\":\"assistant\",\"content\":\"\"}";
    }
    end({}, {}, sink);
  }

  void reasoning(const Answer&, std::string_view text, std::string_view logprobs, EventSink sink) override {
    begin();
    chunk_ += "{\"content\":null,\"reasoning_content\":";
    append_json_string(chunk_, text);
    chunk_ += '}';
    end("reasoning_content", logprobs, sink);
  }

  void content(const Answer& answer, std::string_view text, std::string_view logprobs, EventSink sink) override {
    begin();
    chunk_ += "{\"content\":";
    append_json_string(chunk_, text);
    chunk_ += answer.thinking ? ",\"reasoning_content\":null}" : "}";
    end("content", logprobs, sink);
  }

  void call(const Answer& answer, EventSink sink) override {
    begin();
    chunk_ += "{\"tool_calls\":[";
    append_call(chunk_, answer, answer.calls.size() - 1);
    chunk_ += "]}";
    end({}, {}, sink);
  }

  void arguments(const Answer& answer, std::string_view text, EventSink sink) override {
    begin();
    chunk_ +=
        "{\"tool_calls\":[{\"index\":" + std::to_string(answer.calls.size() - 1) + ",\"function\":{\"arguments\":";
    append_json_string(chunk_, text);
    chunk_ += "}}]}";
    end({}, {}, sink);
  }

  void call_end(const Answer&, EventSink) override {}

  void close(const Answer& answer, EventSink sink) override {
    begin();
    chunk_ += answer.thinking ? "{\"content\":\"\",\"reasoning_content\":null}" : "{\"content\":\"\"}";
    chunk_.append(",\"logprobs\":null,\"finish_reason\":\"").append(finish_reason(answer)).append("\"}]");
    if (alone_) {
      const Answer* const all[] = {&answer};
      chunk_ += ",\"usage\":";
      append_usage(chunk_, all);
    } else if (announces_usage_) {
      chunk_ += ",\"usage\":null";
    }
    chunk_ += '}';
    sink({}, chunk_);
    if (alone_) sink({}, "[DONE]");
  }

  std::string object(const Answer& answer) const override {
    const Answer* const all[] = {&answer};
    return chat_completions_object(all);
  }

 private:
  void begin() { chunk_ = head_; }

  void end(std::string_view channel, std::string_view logprobs, EventSink sink) {
    if (logprobs.empty()) {
      chunk_ += ",\"logprobs\":null";
    } else {
      chunk_.append(",\"logprobs\":{\"").append(channel).append("\":[").append(logprobs).append("]}");
    }
    chunk_ += announces_usage_ ? ",\"finish_reason\":null}],\"usage\":null}" : ",\"finish_reason\":null}]}";
    sink({}, chunk_);
  }

  bool announces_usage_;
  bool alone_;         // the request has one answer: its end is that of the stream
  std::string head_;   // every chunk begins like this
  std::string chunk_;  // the one being written
};

}  // namespace

void end_chat_completions(std::span<const Answer* const> answers, bool include_usage, EventSink sink) {
  if (include_usage) {
    std::string chunk = chunk_head(answers.front()->identity);
    chunk += ",\"choices\":[],\"usage\":";
    append_usage(chunk, answers);
    chunk += '}';
    sink({}, chunk);
  }
  sink({}, "[DONE]");
}

std::string chat_completions_object(std::span<const Answer* const> answers) {
  const Answer& first = *answers.front();
  std::string out = "{\"id\":";
  append_json_string(out, first.identity.id);
  out += ",\"object\":\"chat.completion\",\"created\":" + std::to_string(first.identity.created) + ",\"model\":";
  append_json_string(out, first.identity.model);
  out += ",\"choices\":[";
  for (const Answer* answer : answers) {
    if (answer != &first) out += ',';
    append_choice(out, *answer);
  }
  out += "],\"usage\":";
  append_usage(out, answers);
  if (!first.prompt_logprobs.empty()) out.append(",\"prompt_logprobs\":").append(first.prompt_logprobs);
  out += ",\"system_fingerprint\":";
  append_json_string(out, first.identity.fingerprint);
  out += '}';
  return out;
}

std::unique_ptr<AnswerWriter> make_chat_completions_writer(const InferenceRequest& request) {
  return std::make_unique<ChatCompletionsWriter>(request);
}

}  // namespace deepinfer
