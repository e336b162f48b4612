#include "text/prompt_encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/out_of_memory.h"
#include "text/json_text.h"
#include "text/prompt_template.h"

namespace deepinfer {
namespace {

// Collects the text and the ranges of control tokens.
class PromptWriter {
 public:
  explicit PromptWriter(RenderedPrompt& prompt) : prompt_(prompt) {}

  void plain(std::string_view text) { prompt_.text += text; }

  void control(std::string_view token) {
    prompt_.special.push_back({prompt_.text.size(), prompt_.text.size() + token.size()});
    prompt_.text += token;
  }

  // Text in which every spelling of `tokens` is a control token: our own template text, and the grounding tokens in
  // what an assistant said.
  template <size_t N>
  void with_controls(std::string_view text, const std::array<std::string_view, N>& tokens) {
    size_t done = 0;
    for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
      // `｜DSML｜` stands behind "<" or "</"; all others begin with the "<".
      for (const std::string_view token : tokens) {
        size_t begin = at;
        if (token.front() != '<') begin += text.substr(at).starts_with("</") ? 2 : 1;
        if (!text.substr(begin).starts_with(token)) continue;
        plain(text.substr(done, begin - done));
        control(token);
        done = begin + token.size();
        at = done - 1;
        break;
      }
    }
    plain(text.substr(done));
  }

  void with_images(const Message& message) {
    std::string_view text = message.content;
    size_t done = 0;
    for (const InlineImage& image : message.images) {
      plain(text.substr(done, image.offset - done));
      done = image.offset;
      prompt_.image_tokens.push_back(prompt_.special.size());
      prompt_.images.push_back(image.source);
      control(token::kImage);
    }
    plain(text.substr(done));
  }

 private:
  RenderedPrompt& prompt_;
};

void append_schema_line(std::string& out, const ToolDefinition& tool) {
  out += "{\"name\": \"";
  append_json_escaped(out, tool.name);
  out += "\", \"description\": \"";
  append_json_escaped(out, tool.description);
  out += "\", \"parameters\": ";
  out += tool.parameters;
  out += '}';
}

std::string schema_lines(const std::vector<ToolDefinition>& tools) {
  std::string lines;
  for (const ToolDefinition& tool : tools) {
    if (!lines.empty()) lines += '\n';
    append_schema_line(lines, tool);
  }
  return lines;
}

void write_parameter(PromptWriter& writer, std::string_view name, std::string_view value, bool is_string) {
  writer.plain("<");
  writer.control(token::kDsml);
  writer.plain(" parameter name=\"");
  writer.plain(name);
  writer.plain(is_string ? "\" string=\"true\">" : "\" string=\"false\">");
  writer.plain(value);
  writer.plain("</");
  writer.control(token::kDsml);
  writer.plain(" parameter>");
}

void write_arguments(PromptWriter& writer, const std::string& arguments) {
  const Result<Json> parsed = parse_json(arguments);
  if (!parsed.ok() || !parsed->is_object()) {
    write_parameter(writer, "arguments", arguments, true);
    return;
  }
  bool first = true;
  for (const auto& [key, value] : parsed->get_ref<const Json::object_t&>()) {
    if (!first) writer.plain("\n");
    first = false;
    if (value.is_string()) {
      write_parameter(writer, key, value.get_ref<const std::string&>(), true);
    } else {
      write_parameter(writer, key, dump_python(value), false);
    }
  }
}

void open_calls(PromptWriter& writer) {
  writer.plain("\n\n<");
  writer.control(token::kDsml);
  writer.plain(" calls>\n");
}

void write_calls(PromptWriter& writer, const std::vector<ToolCall>& calls) {
  open_calls(writer);
  for (const ToolCall& call : calls) {
    writer.plain("<");
    writer.control(token::kDsml);
    writer.plain(" invoke name=\"");
    writer.plain(call.name);
    writer.plain("\">\n");
    write_arguments(writer, call.arguments);
    writer.plain("\n</");
    writer.control(token::kDsml);
    writer.plain(" invoke>\n");
  }
  writer.plain("</");
  writer.control(token::kDsml);
  writer.plain(" calls>");
}

// The order of rendering: of a run of reminders only the first stays, and in each run of user and tool messages the
// results stand in the order of the calls that they answer.  Neighbouring users need no merging: they are rendered
// with the same "\n\n" between them that merging would insert.
std::vector<const Message*> ordered_messages(const std::vector<Message>& messages) {
  std::vector<const Message*> order;
  order.reserve(messages.size());
  for (const Message& message : messages) {
    const bool repeated_reminder =
        message.role == Role::kLatestReminder && !order.empty() && order.back()->role == Role::kLatestReminder;
    if (!repeated_reminder) order.push_back(&message);
  }

  const auto in_run = [](const Message* m) { return m->role == Role::kUser || m->role == Role::kTool; };
  const std::vector<ToolCall>* calls = nullptr;
  for (size_t i = 0; i < order.size();) {
    if (!in_run(order[i])) {
      if (order[i]->role == Role::kAssistant && !order[i]->tool_calls.empty()) calls = &order[i]->tool_calls;
      ++i;
      continue;
    }
    size_t end = i;
    std::vector<size_t> places;
    for (; end < order.size() && in_run(order[end]); ++end) {
      if (order[end]->role == Role::kTool) places.push_back(end);
    }
    if (calls != nullptr && places.size() > 1) {
      std::unordered_map<std::string_view, size_t> rank;
      for (size_t k = 0; k < calls->size(); ++k) rank[(*calls)[k].id] = k;
      const auto rank_of = [&](const Message* m) {
        const auto found = rank.find(m->tool_call_id);
        return found == rank.end() ? size_t{0} : found->second;
      };
      std::vector<const Message*> results;
      for (const size_t place : places) results.push_back(order[place]);
      std::stable_sort(results.begin(), results.end(),
                       [&](const Message* a, const Message* b) { return rank_of(a) < rank_of(b); });
      for (size_t k = 0; k < places.size(); ++k) order[places[k]] = results[k];
    }
    i = end;
  }
  return order;
}

int effort_number(const Effort& effort, const PromptOptions& options) {
  if (effort.number != 0) return effort.number;
  switch (effort.level) {
    case EffortLevel::kLow:
      return options.effort_low;
    case EffortLevel::kHigh:
      return options.effort_high;
    case EffortLevel::kXHigh:
      return options.effort_xhigh;
    case EffortLevel::kMax:
      return options.effort_max;
  }
  return options.effort_high;
}

Status check(const Conversation& conversation, const PromptOptions& options) {
  if (const int number = effort_number(conversation.effort, options); number < 1 || number > 100) {
    return invalid_argument("effort: " + std::to_string(number) + " is outside [1, 100]");
  }
  const bool forced = conversation.tools_shown() && conversation.tool_choice == ToolChoice::kRequired;
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const Message& message = conversation.messages[i];
    const std::string place = "messages[" + std::to_string(i) + "].";
    const bool assistant = message.role == Role::kAssistant;
    if (!message.images.empty() && (assistant || message.role == Role::kLatestReminder)) {
      return invalid_argument(place + "images: only system, user and tool messages can hold images");
    }
    for (size_t k = 0; k < message.images.size(); ++k) {
      const size_t previous = k == 0 ? 0 : message.images[k - 1].offset;
      if (message.images[k].offset < previous || message.images[k].offset > message.content.size()) {
        return invalid_argument(place + "images: offsets must ascend and lie inside the content");
      }
    }
    if (!message.tool_calls.empty() && !assistant) {
      return invalid_argument(place + "tool_calls: only assistant messages can hold calls");
    }
    if (!message.late_tools.empty() && message.role != Role::kSystem) {
      return invalid_argument(place + "late_tools: only system messages can add tools");
    }
    if (!message.prefix) continue;
    if (!assistant || i + 1 != conversation.messages.size()) {
      return invalid_argument(place + "prefix: only the last message can be continued, and only an assistant's");
    }
    if (forced) return invalid_argument(place + "prefix: cannot be combined with required calls");
  }
  return {};
}

class Renderer {
 public:
  Renderer(const Conversation& conversation, const PromptOptions& options, RenderedPrompt& prompt)
      : conversation_(conversation), options_(options), prompt_(prompt), writer_(prompt) {}

  void render() {
    const std::vector<const Message*> messages = ordered_messages(conversation_.messages);
    const bool host = conversation_.tools_shown() || wants_json();
    const bool system_first = !messages.empty() && messages[0]->role == Role::kSystem;

    writer_.control(token::kBeginOfSentence);
    if (conversation_.thinking || host || system_first) writer_.control(token::kSystem);
    if (conversation_.thinking) {
      writer_.plain("Reasoning Effort: ");
      writer_.plain(std::to_string(effort_number(conversation_.effort, options_)));
      writer_.plain(" (range 1-100, the higher the value, the more thorough the reasoning)\n\n");
    }
    if (host && !system_first) {
      write_host_blocks();
      first_ = false;
    }
    for (const Message* message : messages) {
      write_message(*message, host && first_);
      first_ = false;
      previous_ = message->role;
    }
    finish(messages.empty() ? nullptr : messages.back());
  }

 private:
  bool wants_json() const {
    return conversation_.response_format.kind == ResponseFormat::Kind::kJsonObject ||
           conversation_.response_format.kind == ResponseFormat::Kind::kJsonSchema;
  }

  // What is appended to the first system message.
  void write_host_blocks() {
    if (conversation_.tools_shown()) {
      writer_.plain("\n\n");
      writer_.with_controls(kToolsBlockHead, kTemplateTokens);
      writer_.plain(schema_lines(conversation_.tools));
      writer_.plain(kToolsBlockTail);
    }
    if (wants_json()) {
      writer_.plain(kResponseFormatHead);
      const bool object = conversation_.response_format.kind == ResponseFormat::Kind::kJsonObject;
      writer_.plain(object ? std::string_view("{\"type\": \"json_object\"}") : conversation_.response_format.schema);
    }
  }

  void write_message(const Message& message, bool hosts_blocks) {
    switch (message.role) {
      case Role::kSystem:
        if (!first_) writer_.control(token::kSystem);
        writer_.with_images(message);
        if (hosts_blocks) write_host_blocks();
        if (!message.late_tools.empty()) {
          writer_.plain("\n\n### Updated Tool Schemas\n\n");
          writer_.plain(schema_lines(message.late_tools));
        }
        return;
      case Role::kUser:
        open_user_turn();
        writer_.with_images(message);
        return;
      case Role::kTool:
        open_user_turn();
        writer_.plain("<tool_result>");
        writer_.with_images(message);
        writer_.plain("</tool_result>");
        return;
      case Role::kLatestReminder:
        writer_.control(token::kLatestReminder);
        writer_.plain(message.content);
        return;
      case Role::kAssistant:
        write_assistant(message);
        return;
    }
  }

  void open_user_turn() {
    if (!first_ && (previous_ == Role::kUser || previous_ == Role::kTool)) {
      writer_.plain("\n\n");
    } else {
      writer_.control(token::kUser);
    }
  }

  void write_assistant(const Message& message) {
    writer_.control(token::kAssistant);
    const bool keeps_reasoning = conversation_.thinking && !first_ && (conversation_.tools_shown() || message.prefix);
    if (keeps_reasoning) {
      writer_.control(token::kThink);
      writer_.with_controls(message.reasoning, kGroundingTokens);
    }
    const bool inside_reasoning = keeps_reasoning && message.prefix && message.content.empty();
    if (!inside_reasoning) writer_.control(token::kEndThink);
    writer_.with_controls(message.content, kGroundingTokens);
    if (!message.tool_calls.empty()) write_calls(writer_, message.tool_calls);
    if (!message.prefix) {
      writer_.control(token::kEndOfSentence);
    } else if (!conversation_.thinking) {
      prompt_.start = OutputStart::kContent;
    } else if (!inside_reasoning) {
      prompt_.start = OutputStart::kContentContinued;
    } else {
      prompt_.start = message.reasoning.empty() ? OutputStart::kReasoning : OutputStart::kReasoningContinued;
    }
  }

  void finish(const Message* last) {
    if (last == nullptr || !last->prefix) {
      writer_.control(token::kAssistant);
      writer_.control(conversation_.thinking ? token::kThink : token::kEndThink);
      prompt_.start = conversation_.thinking ? OutputStart::kReasoning : OutputStart::kContent;
    }
    // Behind reasoning the model opens the block itself.
    if (conversation_.tools_shown() && conversation_.tool_choice == ToolChoice::kRequired && !conversation_.thinking) {
      open_calls(writer_);
      prompt_.start = OutputStart::kTools;
    }
  }

  const Conversation& conversation_;
  const PromptOptions& options_;
  RenderedPrompt& prompt_;
  PromptWriter writer_;
  bool first_ = true;  // nothing but the effort line stands before the next message
  Role previous_ = Role::kSystem;
};

}  // namespace

Result<RenderedPrompt> encode_prompt(const Conversation& conversation, const PromptOptions& options) {
  return or_out_of_memory(
      [&] { return fmt::format("the prompt of a conversation of {} messages", conversation.messages.size()); },
      [&]() -> Result<RenderedPrompt> {
        DI_RETURN_IF_ERROR(check(conversation, options));
        RenderedPrompt prompt;
        Renderer(conversation, options, prompt).render();
        return prompt;
      });
}

}  // namespace deepinfer
