// What comes of a request: tokens, steps and the end, as Python sees them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <chrono>
#include <string_view>
#include <vector>

#include "bindings.h"
#include "submitted_request.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace deepinfer::python {
namespace {

std::string_view reason_name(EndReason reason) {
  switch (reason) {
    case EndReason::kStop:
      return "stop";
    case EndReason::kLength:
      return "length";
    case EndReason::kCancelled:
      return "abort";
    case EndReason::kDeadline:
      return "timeout";
    case EndReason::kError:
      return "error";
  }
  return "error";
}

std::string_view code_name(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
      return "invalid_argument";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kResourceExhausted:
      return "resource_exhausted";
    case StatusCode::kCorruptFile:
      return "corrupt_file";
    default:
      return to_string(code);
  }
}

nb::tuple python_token(const GeneratedToken& token) {
  nb::list top;
  for (const TokenLogprob& entry : token.top_logprobs) {
    if (entry.token >= 0) top.append(nb::make_tuple(entry.token, entry.logprob));
  }
  return nb::make_tuple(token.token, token.logprob, top);
}

nb::list python_tokens(const std::vector<GeneratedToken>& tokens) {
  nb::list list;
  for (const GeneratedToken& token : tokens) list.append(python_token(token));
  return list;
}

nb::dict python_end(const AnswerOutcome& end) {
  nb::dict out;
  const RequestSummary& n = end.numbers;
  out["reason"] = std::string(reason_name(end.reason));
  out["error"] = end.failure.ok() ? std::string() : end.failure.message();
  out["code"] = end.failure.ok() ? std::string() : std::string(code_name(end.failure.code()));
  out["stop_string"] = end.stop_string;
  out["prompt_tokens"] = n.prompt_tokens;
  out["answer_tokens"] = n.answer_tokens;
  out["cached_tokens"] = n.cached_tokens;
  out["recomputed_tokens"] = n.recomputed_tokens;
  out["swapped_tokens"] = n.swapped_tokens;
  out["rounds"] = n.rounds;
  out["drafted"] = n.drafted;
  out["accepted"] = n.accepted;
  out["rejection_sampled"] = n.marks.rejection_sampled;
  out["bounded_prefix"] = n.marks.bounded_prefix;
  out["queued_seconds"] = seconds(n.queued);
  out["first_token_seconds"] = seconds(n.first_token);
  out["total_seconds"] = seconds(n.total);
  return out;
}

// Tokens of a step, draft tokens that it verified, version of the weights that it ran with.
nb::list python_steps(const std::vector<AnswerNews::Step>& steps) {
  nb::list list;
  for (const AnswerNews::Step& step : steps)
    list.append(nb::make_tuple(step.tokens, step.drafted, step.weights_version));
  return list;
}

template <typename T>
nb::bytes python_bytes(const std::vector<T>& values) {
  return nb::bytes(values.data(), values.size() * sizeof(T));
}

}  // namespace

void bind_answer(nb::module_& module) {
  nb::class_<SubmittedRequest>(module, "SubmittedRequest")
      .def(
          "wait_end",
          [](SubmittedRequest& self, double timeout) {
            return self.answer->wait_end(
                std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(timeout)));
          },
          "timeout"_a, nb::call_guard<nb::gil_scoped_release>())
      // (text, [(id, logprob, [(id, logprob), ...]), ...], [(tokens, drafted, weights' version) of each step], prompt's
      // tokens, (experts as uint16, selected rows as int32), how it ended or None)
      .def("take",
           [](SubmittedRequest& self) {
             AnswerNews news;
             {
               nb::gil_scoped_release unlocked;
               news = self.answer->take();
             }
             nb::object end = news.end ? nb::object(python_end(*news.end)) : nb::none();
             return nb::make_tuple(
                 news.text, python_tokens(news.tokens), python_steps(news.steps), python_tokens(news.prompt_logprobs),
                 nb::make_tuple(python_bytes(news.choices.experts), python_bytes(news.choices.selected)), end);
           })
      .def(
          "cancel", [](SubmittedRequest& self) { self.engine->cancel(*self.answer); },
          nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace deepinfer::python
