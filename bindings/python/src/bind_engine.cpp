// Engine, requests and answers.
#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <tuple>
#include <utility>

#include "bindings.h"
#include "grammar/grammar_spec.h"
#include "model_location.h"
#include "python_engine.h"
#include "raise_status.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace deepinfer::python {
namespace {

// A submitted request in Python's hands: keeps the engine alive and may be cancelled.
struct SubmittedRequest {
  std::shared_ptr<PythonEngine> engine;
  std::shared_ptr<PendingAnswer> answer;
};

// A Python callable that the output thread calls; its references are counted under the interpreter's lock.
std::function<void()> notifier(nb::object callable) {
  if (callable.is_none()) return nullptr;
  std::shared_ptr<nb::object> held(new nb::object(std::move(callable)), [](nb::object* object) {
    nb::gil_scoped_acquire lock;
    delete object;
  });
  return [held = std::move(held)] {
    nb::gil_scoped_acquire lock;
    ++python_calls_of_output_thread;
    try {
      (*held)();
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("deepinfer: news of an answer");
    }
    --python_calls_of_output_thread;
  };
}

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

double seconds(Time time) {
  return std::chrono::duration<double>(time).count();
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

PauseMode pause_mode(bool keep) {
  return keep ? PauseMode::kKeep : PauseMode::kDrain;
}

nb::dict python_stats(const PythonEngine& engine) {
  EngineStats s;
  if (!engine.look([&](const Engine& open) { s = open.stats(); })) throw nb::value_error("the engine is closed");
  nb::dict out;
  out["waiting"] = s.scheduler.waiting;
  out["running"] = s.scheduler.running;
  out["submitted"] = s.scheduler.submitted;
  out["ended"] = s.scheduler.ended;
  out["preemptions"] = s.scheduler.preemptions;
  out["prompt_tokens"] = s.scheduler.prompt_tokens;
  out["cached_tokens"] = s.scheduler.cached_tokens;
  out["answer_tokens"] = s.scheduler.answer_tokens;
  out["held_blocks"] = s.scheduler.held_blocks;
  out["total_blocks"] = s.scheduler.total_blocks;
  out["steps"] = s.steps;
  out["drafted"] = s.drafted;
  out["accepted"] = s.accepted;
  out["executing_seconds"] = seconds(s.executing);
  out["planning_seconds"] = seconds(s.planning);
  out["weights_version"] = s.weights_version;
  return out;
}

void bind_options(nb::module_& module) {
  nb::class_<PythonEngineOptions>(module, "EngineOptions")
      .def(nb::init<>())
      .def_prop_rw(
          "model", [](const PythonEngineOptions& o) { return o.engine.model.string(); },
          [](PythonEngineOptions& o, const std::string& model) { o.engine.model = model; })
      .def_rw("tokenizer", &PythonEngineOptions::tokenizer)
      .def_rw("backend", &PythonEngineOptions::backend)
      .def_rw("threads", &PythonEngineOptions::threads)
      .def_rw("stats_interval", &PythonEngineOptions::stats_interval)
      .def_rw("request_log", &PythonEngineOptions::request_log)
      .def_prop_rw(
          "kv_disk_folder", [](const PythonEngineOptions& o) { return o.engine.kv_disk_folder.string(); },
          [](PythonEngineOptions& o, const std::string& v) { o.engine.kv_disk_folder = v; })
      .def_prop_rw(
          "kv_disk_bytes", [](const PythonEngineOptions& o) { return o.engine.kv_disk_bytes; },
          [](PythonEngineOptions& o, int64_t v) { o.engine.kv_disk_bytes = v; })
      .def_prop_rw(
          "kv_host_bytes", [](const PythonEngineOptions& o) { return o.engine.kv_host_bytes; },
          [](PythonEngineOptions& o, int64_t v) { o.engine.kv_host_bytes = v; })
      .def_prop_rw(
          "max_context", [](const PythonEngineOptions& o) { return o.engine.max_context; },
          [](PythonEngineOptions& o, int64_t v) { o.engine.max_context = v; })
      .def_prop_rw(
          "cache_bytes", [](const PythonEngineOptions& o) { return o.engine.cache_bytes; },
          [](PythonEngineOptions& o, int64_t v) { o.engine.cache_bytes = v; })
      .def_prop_rw(
          "max_sequences", [](const PythonEngineOptions& o) { return o.engine.max_sequences; },
          [](PythonEngineOptions& o, int v) { o.engine.max_sequences = v; })
      .def_prop_rw(
          "step_rows", [](const PythonEngineOptions& o) { return o.engine.step_rows; },
          [](PythonEngineOptions& o, int64_t v) { o.engine.step_rows = v; })
      .def_prop_rw(
          "decode_latency_ms", [](const PythonEngineOptions& o) { return o.engine.decode_latency.count(); },
          [](PythonEngineOptions& o, int64_t v) { o.engine.decode_latency = std::chrono::milliseconds(v); })
      .def_prop_rw(
          "prefix_cache", [](const PythonEngineOptions& o) { return o.engine.prefix_cache; },
          [](PythonEngineOptions& o, bool v) { o.engine.prefix_cache = v; })
      .def_prop_rw(
          "verify_all_drafts",
          [](const PythonEngineOptions& o) { return o.engine.draft_schedule == DraftSchedule::kAll; },
          [](PythonEngineOptions& o, bool v) {
            o.engine.draft_schedule = v ? DraftSchedule::kAll : DraftSchedule::kFresh;
          })
      .def_prop_rw(
          "step_cost_file", [](const PythonEngineOptions& o) { return o.engine.step_cost_file.string(); },
          [](PythonEngineOptions& o, const std::string& v) { o.engine.step_cost_file = v; });
}

// A field of EngineRequest, of GenerationParams, and one that needs a conversion.
#define DI_REQUEST_FIELD(name, member)                             \
  def_prop_rw(                                                     \
      name, [](const TextRequest& r) { return r.request.member; }, \
      [](TextRequest& r, const decltype(EngineRequest::member)& v) { r.request.member = v; })
#define DI_PARAMS_FIELD(name, member)                                     \
  def_prop_rw(                                                            \
      name, [](const TextRequest& r) { return r.request.params.member; }, \
      [](TextRequest& r, const decltype(GenerationParams::member)& v) { r.request.params.member = v; })

void bind_request(nb::module_& module) {
  nb::class_<TextRequest>(module, "Request")
      .def(nb::init<>())
      .DI_REQUEST_FIELD("prompt", prompt)
      .DI_REQUEST_FIELD("min_tokens", min_tokens)
      .DI_REQUEST_FIELD("allowed_tokens", allowed_tokens)
      .DI_REQUEST_FIELD("bad_words", bad_words)
      .DI_REQUEST_FIELD("forced_tokens", forced_tokens)
      .DI_REQUEST_FIELD("prompt_logprobs", prompt_logprobs)
      .DI_REQUEST_FIELD("choice", choice)
      .DI_REQUEST_FIELD("priority", priority)
      .DI_REQUEST_FIELD("cache_salt", cache_salt)
      .DI_REQUEST_FIELD("use_prefix_cache", use_prefix_cache)
      .DI_REQUEST_FIELD("replay_tokens", replay_tokens)
      .def_prop_rw(
          "bounded_prefix", [](const TextRequest& r) { return r.request.prefix_replay == PrefixReplay::kBounded; },
          [](TextRequest& r, bool v) { r.request.prefix_replay = v ? PrefixReplay::kBounded : PrefixReplay::kExact; })
      .def_prop_rw(
          "rejection_sampling",
          [](const TextRequest& r) { return r.request.params.speculative_sampling == SpeculativeSampling::kRejection; },
          [](TextRequest& r, bool v) {
            r.request.params.speculative_sampling = v ? SpeculativeSampling::kRejection : SpeculativeSampling::kExact;
          })
      .DI_REQUEST_FIELD("capture_routed_experts", capture_routed_experts)
      .DI_REQUEST_FIELD("capture_selected_indices", capture_selected_indices)
      .DI_PARAMS_FIELD("temperature", temperature)
      .DI_PARAMS_FIELD("top_p", top_p)
      .DI_PARAMS_FIELD("min_p", min_p)
      .DI_PARAMS_FIELD("top_k", top_k)
      .DI_PARAMS_FIELD("repetition_penalty", repetition_penalty)
      .DI_PARAMS_FIELD("presence_penalty", presence_penalty)
      .DI_PARAMS_FIELD("frequency_penalty", frequency_penalty)
      .DI_PARAMS_FIELD("seed", seed)
      .DI_PARAMS_FIELD("max_tokens", max_tokens)
      .DI_PARAMS_FIELD("stop_tokens", stop_tokens)
      .DI_PARAMS_FIELD("logprobs", logprobs)
      .DI_PARAMS_FIELD("raw_logprobs", raw_logprobs)
      .DI_PARAMS_FIELD("draft_tokens", draft_tokens)
      .def_rw("stop", &TextRequest::stop)
      .def_rw("include_stop", &TextRequest::include_stop)
      .def(
          "set_timeout",
          [](TextRequest& r, int64_t milliseconds) { r.request.timeout = std::chrono::milliseconds(milliseconds); },
          "milliseconds"_a)
      .def(
          "add_logit_bias",
          [](TextRequest& r, int32_t token, float bias) {
            r.request.params.logit_bias.push_back({token, bias});
          },
          "token"_a, "bias"_a)
      .def(
          "set_so_args",
          [](TextRequest& r, const std::string& json) { r.request.grammar = value_or_raise(parse_so_args(json)); },
          "json"_a);
}
#undef DI_REQUEST_FIELD
#undef DI_PARAMS_FIELD

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

}  // namespace

void bind_engine(nb::module_& module) {
  bind_options(module);
  bind_request(module);
  bind_answer(module);
  nb::class_<PythonEngine>(module, "Engine")
      .def(
          "submit",
          [](std::shared_ptr<PythonEngine> self, const TextRequest& request, int choices, nb::object on_news) {
            std::vector<std::shared_ptr<PendingAnswer>> answers;
            std::vector<SubmittedRequest> submitted;
            for (int i = 0; i < choices; ++i) {
              answers.push_back(std::make_shared<PendingAnswer>(notifier(on_news)));
              submitted.push_back({self, answers.back()});
            }
            {
              nb::gil_scoped_release unlocked;
              raise_if_error(self->submit(request, std::move(answers)));
            }
            return submitted;
          },
          "request"_a, "choices"_a = 1, "on_news"_a = nb::none())
      .def(
          "pause", [](PythonEngine& self, bool keep) { raise_if_error(self.pause(pause_mode(keep))); }, "keep"_a,
          nb::call_guard<nb::gil_scoped_release>())
      .def(
          "resume", [](PythonEngine& self) { raise_if_error(self.resume()); }, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "sleep", [](PythonEngine& self, bool keep) { raise_if_error(self.sleep(pause_mode(keep))); }, "keep"_a,
          nb::call_guard<nb::gil_scoped_release>())
      .def(
          "wake_up", [](PythonEngine& self) { raise_if_error(self.wake_up()); },
          nb::call_guard<nb::gil_scoped_release>())
      .def(
          "update_weights",
          [](PythonEngine& self, const std::string& folder, bool keep, bool keep_records) {
            raise_if_error(self.update_weights({folder, pause_mode(keep), keep_records}));
          },
          "folder"_a, "keep"_a, "keep_records"_a, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("state",
                   [](const PythonEngine& self) {
                     std::string state = "closed";
                     self.look([&](const Engine& engine) { state = to_string(engine.stats().state); });
                     return state;
                   })
      .def("close", &PythonEngine::close, nb::call_guard<nb::gil_scoped_release>())
      .def("stats", &python_stats)
      .def("metrics_text", &PythonEngine::metrics_text, "model"_a)
      .def("memory_plan",
           [](const PythonEngine& self) {
             nb::list lines;
             self.look([&](const Engine& engine) {
               for (const MemoryPlanLine& line : engine.memory_plan())
                 lines.append(nb::make_tuple(line.name, line.bytes, line.detail));
             });
             return lines;
           })
      .def_prop_ro("facts",
                   [](const PythonEngine& self) {
                     nb::dict facts;
                     self.look([&](const Engine& engine) {
                       facts["vocabulary"] = engine.vocabulary();
                       facts["eos_token"] = engine.eos_token();
                       facts["max_context"] = engine.max_context();
                       facts["backend"] = std::string(engine.backend_name());
                       const ChoiceCounts counts = engine.choice_counts();
                       facts["routed_experts_shape"] = nb::make_tuple(counts.routers, counts.experts);
                       facts["selected_indices_shape"] = nb::make_tuple(counts.indexers, counts.selected);
                     });
                     return facts;
                   })
      .def_prop_ro("tokenizer",
                   [](const PythonEngine& self) { return std::const_pointer_cast<Tokenizer>(self.tokenizer()); });
  module.def(
      "open_engine",
      [](const PythonEngineOptions& options) {
        // Whoever drops the last reference may hold the interpreter's lock; the output thread may want it meanwhile.
        return std::shared_ptr<PythonEngine>(value_or_raise(PythonEngine::open(options)).release(),
                                             [](PythonEngine* engine) {
                                               if (PyGILState_Check() == 0) return delete engine;
                                               nb::gil_scoped_release unlocked;
                                               delete engine;
                                             });
      },
      "options"_a, nb::call_guard<nb::gil_scoped_release>());
  module.def(
      "check_so_args", [](const std::string& json) { raise_if_error(parse_so_args(json).status()); }, "json"_a);
  module.def(
      "locate_model",
      [](const std::string& name) {
        return value_or_raise(cli::locate_model(std::optional<std::string>(name))).string();
      },
      "name"_a);
}

}  // namespace deepinfer::python
