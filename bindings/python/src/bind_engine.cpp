// The engine and its options.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <utility>

#include "bindings.h"
#include "grammar/grammar_spec.h"
#include "model_location.h"
#include "python_engine.h"
#include "raise_status.h"
#include "submitted_request.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace deepinfer::python {
namespace {

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
      .def_rw("gpu_memory_utilization", &PythonEngineOptions::gpu_memory_utilization)
      .def_rw("expert_placement", &PythonEngineOptions::expert_placement)
      .def_rw("engram_placement", &PythonEngineOptions::engram_placement)
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
      .def(
          "forget_prefixes",
          [](PythonEngine& self, bool device, bool host) {
            raise_if_error(self.forget_prefixes({.device = device, .host = host}));
          },
          "device"_a, "host"_a, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("state",
                   [](const PythonEngine& self) {
                     std::string state = "closed";
                     self.look([&](const Engine& engine) { state = to_string(engine.stats().state); });
                     return state;
                   })
      // Why, in state "failed".
      .def_prop_ro("failure",
                   [](const PythonEngine& self) {
                     std::string why;
                     self.look([&](const Engine& engine) { why = engine.stats().failure.message(); });
                     return why;
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
