// A request's fields.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <string>

#include "bindings.h"
#include "engine/text_generation.h"
#include "grammar/grammar_spec.h"
#include "raise_status.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace deepinfer::python {

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

}  // namespace deepinfer::python
