// Requests of the three protocols as prompts, and generated text as messages and protocol events.  Bodies go in as
// bytes and structured results come out as JSON text: the Python side has a parser already.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bindings.h"
#include "engine/output_grammar.h"
#include "engine/text_generation.h"
#include "raise_status.h"
#include "text/output_parser.h"
#include "text/prompt_encoding.h"
#include "text/protocol/answer_stream.h"
#include "text/protocol/chat_completions_request.h"
#include "text/protocol/messages_request.h"
#include "text/protocol/responses_request.h"
#include "text/tokenizer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace deepinfer::python {
namespace {

// Raised as deepinfer.encoding.RequestRefused with (message, kind, status, body).
struct Refused {
  RequestError error;
};

struct RequestOptions {
  std::vector<std::string> models;  // empty: the protocols' own list
  bool extended_profile = false;
  bool default_thinking = true;
  bool reject_missing_reasoning = false;
  bool responses_web_search_rejected = false;
  bool messages_web_search_rejected = true;
};

ProtocolOptions protocol_options(const RequestOptions& options) {
  using WebSearch = ProtocolOptions::WebSearch;
  ProtocolOptions out;
  if (!options.models.empty()) out.models = options.models;
  if (options.extended_profile) out.profile = Profile::kExtended;
  out.default_thinking = options.default_thinking;
  out.reject_missing_reasoning = options.reject_missing_reasoning;
  out.responses_web_search = options.responses_web_search_rejected ? WebSearch::kReject : WebSearch::kDrop;
  out.messages_web_search = options.messages_web_search_rejected ? WebSearch::kReject : WebSearch::kDrop;
  return out;
}

// A request that was read: the prompt, and what reading its answer needs.
struct ParsedRequest {
  std::string protocol;
  InferenceRequest inference;
  std::optional<ResponsesRequest> responses;
  RenderedPrompt prompt;

  std::unique_ptr<AnswerWriter> writer() const {
    if (responses) return make_responses_writer(*responses);
    return protocol == "messages" ? make_messages_writer(inference) : make_chat_completions_writer(inference);
  }
};

template <typename T>
T accepted(RequestOr<T> outcome) {
  if (auto* error = std::get_if<RequestError>(&outcome)) throw Refused{std::move(*error)};
  return std::get<T>(std::move(outcome));
}

ParsedRequest parse_request(const std::string& protocol, std::string_view body, const RequestOptions& options) {
  const ProtocolOptions rules = protocol_options(options);
  ParsedRequest out;
  out.protocol = protocol;
  if (protocol == "chat_completions") {
    out.inference = accepted(parse_chat_completions(body, rules));
  } else if (protocol == "messages") {
    out.inference = accepted(parse_messages(body, rules));
  } else if (protocol == "responses") {
    out.responses = accepted(parse_responses(body, rules));
    out.inference = out.responses->inference;
  } else {
    raise(invalid_argument("protocol is '" + protocol + "'; allowed: 'chat_completions', 'responses', 'messages'"));
  }
  out.prompt = value_or_raise(encode_prompt(out.inference.conversation));
  return out;
}

std::string_view kind_name(RequestError::Kind kind) {
  switch (kind) {
    case RequestError::Kind::kJson:
      return "json";
    case RequestError::Kind::kBody:
      return "body";
    case RequestError::Kind::kRequest:
      return "request";
  }
  return "request";
}

constexpr std::string_view kStartNames[] = {"content", "reasoning", "content_continued", "reasoning_continued",
                                            "tools"};

OutputStart start_of(std::string_view name) {
  for (size_t i = 0; i < std::size(kStartNames); ++i)
    if (kStartNames[i] == name) return static_cast<OutputStart>(i);
  raise(invalid_argument("start is '" + std::string(name) +
                         "'; allowed: 'content', 'reasoning', 'content_continued', 'reasoning_continued', 'tools'"));
}

// Effective values; keys are absent where the request leaves them open.
nb::dict python_params(const ParsedRequest& parsed) {
  const InferenceRequest& r = parsed.inference;
  const Conversation& c = r.conversation;
  static constexpr const char* kEffort[] = {"low", "high", "xhigh", "max"};
  static constexpr const char* kFormat[] = {"text", "json_object", "json_schema", "regex"};
  nb::dict out;
  out["model"] = r.model;
  out["thinking"] = c.thinking;
  if (c.thinking) out["effort"] = kEffort[static_cast<int>(c.effort.level)];
  if (c.thinking && c.effort.number != 0) out["effort_number"] = c.effort.number;
  out["temperature"] = r.temperature;
  out["top_p"] = r.top_p;
  if (r.max_tokens) out["max_tokens"] = *r.max_tokens;
  if (r.seed) out["seed"] = *r.seed;
  out["stop"] = nb::cast(r.stop);
  out["logprobs"] = r.logprobs;
  out["top_logprobs"] = r.top_logprobs;
  out["stream"] = r.stream;
  out["response_format"] = kFormat[static_cast<int>(c.response_format.kind)];
  const OutputParserOptions parser = r.parser_options(parsed.prompt.start);
  out["start"] = std::string(kStartNames[static_cast<int>(parser.start)]);
  out["parse_tool_calls"] = parser.parse_tool_calls;
  out["json_output"] = parser.json_output;
  if (r.constraint) {
    nb::dict constraint;
    constraint["kind"] = std::string(to_string(r.constraint->kind));
    constraint["schema"] = r.constraint->schema;
    out["constraint"] = constraint;
  }
  return out;
}

nb::list python_images(const RenderedPrompt& prompt) {
  static constexpr const char* kDetail[] = {"low", "high", "original", "auto"};
  nb::list out;
  for (const ImageSource& image : prompt.images) {
    nb::dict entry;
    entry["kind"] = image.kind == ImageSource::Kind::kUrl ? "url" : "data_url";
    entry["url"] = image.url;
    entry["detail"] = kDetail[static_cast<int>(image.detail)];
    entry["path"] = image.field;
    out.append(entry);
  }
  return out;
}

nb::list python_ranges(const RenderedPrompt& prompt) {
  nb::list out;
  for (const ByteRange& range : prompt.special) out.append(nb::make_tuple(range.begin, range.end));
  return out;
}

// OutputParser with its events as Python objects.
class EventParser {
 public:
  explicit EventParser(const OutputParserOptions& options) : parser_(options) {}

  nb::list push(std::string_view text) {
    nb::list events;
    running_ = parser_.push(text, [&](const OutputEvent& event) { append(events, event); }) && running_;
    return events;
  }
  nb::list finish() {
    nb::list events;
    parser_.finish([&](const OutputEvent& event) { append(events, event); });
    return events;
  }
  bool running() const { return running_; }
  int matched_stop() const { return parser_.matched_stop(); }

 private:
  static void append(nb::list& events, const OutputEvent& event) {
    static constexpr const char* kNames[] = {"reasoning",           "content",      "tool_call_begin", "tool_call_name",
                                             "tool_call_arguments", "tool_call_end"};
    events.append(nb::make_tuple(kNames[static_cast<int>(event.kind)], nb::str(event.text.data(), event.text.size()),
                                 event.call));
  }

  OutputParser parser_;
  bool running_ = true;
};

// AnswerStream with its events as (name, data).
class EventStream {
 public:
  EventStream(const ParsedRequest& request, std::shared_ptr<Tokenizer> tokenizer, const std::string& id,
              const std::string& model, const std::string& fingerprint, int64_t created, uint64_t random)
      : tokenizer_(std::move(tokenizer)),
        pieces_(*tokenizer_),
        stream_(request.writer(), request.inference.parser_options(request.prompt.start),
                request.inference.conversation.thinking, AnswerIdentity{id, model, fingerprint, created, random}) {}

  nb::list open(int64_t prompt_tokens, int64_t cached_tokens) {
    return collect([&](EventSink sink) { stream_.open({prompt_tokens, cached_tokens}, sink); });
  }
  nb::list push_text(const std::string& text, int64_t tokens) {
    return collect([&](EventSink sink) { running_ = stream_.push({text, tokens, {}}, sink) && running_; });
  }
  // tokens: (id, logprob, [(id, logprob), ...]); log-probabilities are attached where `logprobs` says so.
  nb::list push_tokens(const std::vector<std::tuple<int32_t, float, std::vector<std::tuple<int32_t, float>>>>& tokens,
                       bool logprobs) {
    for (const auto& [id, logprob, top] : tokens) {
      TokenLogprobs token{std::string(tokenizer_->bytes(id)), logprob, {}};
      for (const auto& [other, value] : top) token.top.push_back({std::string(tokenizer_->bytes(other)), value});
      pieces_.add(id, logprobs ? &token : nullptr);
    }
    const AnswerPiece piece = pieces_.take();
    return collect([&](EventSink sink) { running_ = stream_.push(piece, sink) && running_; });
  }
  nb::list finish(const std::string& reason, int64_t now) {
    AnswerEnd end = AnswerEnd::kStop;
    if (reason == "length") {
      end = AnswerEnd::kLength;
    } else if (reason == "content_filter") {
      end = AnswerEnd::kContentFilter;
    } else if (reason != "stop") {
      raise(invalid_argument("reason is '" + reason + "'; allowed: 'stop', 'length', 'content_filter'"));
    }
    const auto count = [&](std::string_view text) {
      std::vector<int32_t> ids;
      raise_if_error(tokenizer_->encode(text, ids));
      return static_cast<int64_t>(ids.size());
    };
    return collect([&](EventSink sink) { stream_.finish(end, count, now, sink); });
  }
  std::string object() const { return stream_.object(); }
  std::vector<std::string> call_ids() const {
    std::vector<std::string> ids;
    for (const AnswerCall& call : stream_.answer().calls) ids.push_back(call.id);
    return ids;
  }
  bool running() const { return running_; }

 private:
  template <typename Run>
  static nb::list collect(Run&& run) {
    nb::list events;
    run([&](std::string_view event, std::string_view data) {
      events.append(nb::make_tuple(nb::str(event.data(), event.size()), nb::str(data.data(), data.size())));
    });
    return events;
  }

  std::shared_ptr<Tokenizer> tokenizer_;
  TokenPieces pieces_;
  AnswerStream stream_;
  bool running_ = true;
};

}  // namespace

void bind_encoding(nb::module_& module) {
  // Raised with (message, kind, HTTP status, body) as arguments; deepinfer.encoding gives them names.
  // Never freed: it outlives the interpreter's last use of it.
  static PyObject* const refused = PyErr_NewException("deepinfer._core.RequestRefused", PyExc_ValueError, nullptr);
  if (refused == nullptr) throw nb::python_error();
  module.attr("RequestRefused") = nb::borrow(refused);
  nb::register_exception_translator([](const std::exception_ptr& raised, void*) {
    try {
      std::rethrow_exception(raised);
    } catch (const Refused& why) {
      const nb::tuple arguments = nb::make_tuple(why.error.message, std::string(kind_name(why.error.kind)),
                                                 why.error.http_status, why.error.body());
      PyErr_SetObject(refused, arguments.ptr());
    }
  });

  nb::class_<RequestOptions>(module, "RequestOptions")
      .def(nb::init<>())
      .def_rw("models", &RequestOptions::models)
      .def_rw("extended_profile", &RequestOptions::extended_profile)
      .def_rw("default_thinking", &RequestOptions::default_thinking)
      .def_rw("reject_missing_reasoning", &RequestOptions::reject_missing_reasoning)
      .def_rw("responses_web_search_rejected", &RequestOptions::responses_web_search_rejected)
      .def_rw("messages_web_search_rejected", &RequestOptions::messages_web_search_rejected);
  nb::class_<ParsedRequest>(module, "ParsedRequest")
      .def_ro("protocol", &ParsedRequest::protocol)
      .def_prop_ro("prompt", [](const ParsedRequest& self) { return self.prompt.text; })
      .def_prop_ro("special", [](const ParsedRequest& self) { return python_ranges(self.prompt); })
      .def_prop_ro("images", [](const ParsedRequest& self) { return python_images(self.prompt); })
      .def_prop_ro("params", &python_params)
      .def(
          "token_ids",
          [](const ParsedRequest& self, const Tokenizer& tokenizer) {
            std::vector<int32_t> ids;
            raise_if_error(tokenizer.encode_segments(self.prompt.text, self.prompt.special, ids));
            return ids;
          },
          "tokenizer"_a, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "constrain",
          [](const ParsedRequest& self, TextRequest& request, const Tokenizer& tokenizer) {
            request.request.grammar = value_or_raise(output_grammar(self.inference, self.prompt.start, tokenizer));
          },
          "request"_a, "tokenizer"_a);
  module.def(
      "parse_request",
      [](const std::string& protocol, nb::bytes body, const RequestOptions& options) {
        const std::string_view bytes(body.c_str(), body.size());
        nb::gil_scoped_release unlocked;
        return parse_request(protocol, bytes, options);
      },
      "protocol"_a, "body"_a, "options"_a);

  nb::class_<EventParser>(module, "OutputParser")
      .def(
          "__init__",
          [](EventParser* self, const std::string& start, bool parse_tool_calls, bool json_output,
             std::vector<std::string> stop) {
            new (self)
                EventParser(OutputParserOptions{start_of(start), parse_tool_calls, json_output, std::move(stop)});
          },
          "start"_a = "content", "parse_tool_calls"_a = false, "json_output"_a = false,
          "stop"_a = std::vector<std::string>())
      .def("push", &EventParser::push, "text"_a)
      .def("finish", &EventParser::finish)
      .def_prop_ro("running", &EventParser::running)
      .def_prop_ro("matched_stop", &EventParser::matched_stop);
  nb::class_<EventStream>(module, "EventStream")
      .def(nb::init<const ParsedRequest&, std::shared_ptr<Tokenizer>, const std::string&, const std::string&,
                    const std::string&, int64_t, uint64_t>(),
           "request"_a, "tokenizer"_a, "id"_a, "model"_a, "fingerprint"_a, "created"_a, "random"_a)
      .def("open", &EventStream::open, "prompt_tokens"_a, "cached_tokens"_a)
      .def("push_text", &EventStream::push_text, "text"_a, "tokens"_a)
      .def("push_tokens", &EventStream::push_tokens, "tokens"_a, "logprobs"_a)
      .def("finish", &EventStream::finish, "reason"_a, "now"_a)
      .def("object", &EventStream::object)
      .def_prop_ro("call_ids", &EventStream::call_ids)
      .def_prop_ro("running", &EventStream::running);
}

}  // namespace deepinfer::python
