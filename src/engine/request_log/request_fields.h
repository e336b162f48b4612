// visit_fields: the names of everything that a request log's lines hold, once for writing and reading.  A visitor's
// field(name, value) writes the value or fills it in; its type says how.
#pragma once

#include "engine/request_log/logged_request.h"

namespace deepinfer {

template <typename Visitor, typename Header>
requires std::is_same_v<std::remove_const_t<Header>, RequestLogHeader>
void visit_fields(Visitor& v, Header& h) {
  v.field("build", h.build);
  v.field("program", h.program);
  v.field("backend", h.backend);
  v.field("model_name", h.model_name);
  v.field("model", h.model);
  v.field("max_context", h.max_context);
  v.field("cache_bytes", h.cache_bytes);
  v.field("max_sequences", h.max_sequences);
  v.field("step_rows", h.step_rows);
  v.field("decode_latency_ms", h.decode_latency_ms);
  v.field("prefix_cache", h.prefix_cache);
  v.field("early_snapshot_interval", h.early_snapshot_interval);
  v.field("draft_schedule", h.draft_schedule);
}

template <typename Visitor, typename Tool>
requires std::is_same_v<std::remove_const_t<Tool>, CallableTool>
void visit_fields(Visitor& v, Tool& tool) {
  v.field("name", tool.name);
  v.field("parameters", tool.parameters);
  v.field("strict", tool.strict);
}

template <typename Visitor, typename Tag>
requires std::is_same_v<std::remove_const_t<Tag>, StructuralTag>
void visit_fields(Visitor& v, Tag& tag) {
  v.field("begin", tag.begin);
  v.field("schema", tag.schema);
  v.field("end", tag.end);
}

template <typename Visitor, typename Markup>
requires std::is_same_v<std::remove_const_t<Markup>, CallMarkup>
void visit_fields(Visitor& v, Markup& markup) {
  v.field("opening", markup.opening);
  v.field("begin", markup.begin);
  v.field("end", markup.end);
  v.field("call_begin", markup.call_begin);
  v.field("call_named", markup.call_named);
  v.field("call_end", markup.call_end);
  v.field("parameter_begin", markup.parameter_begin);
  v.field("string_value", markup.string_value);
  v.field("json_value", markup.json_value);
  v.field("parameter_end", markup.parameter_end);
  v.field("value_stop", markup.value_stop);
}

template <typename Visitor, typename Grammar>
requires std::is_same_v<std::remove_const_t<Grammar>, GrammarSpec>
void visit_fields(Visitor& v, Grammar& grammar) {
  v.field("kind", grammar.kind);
  v.field("text", grammar.text);
  v.field("tools", grammar.tools);
  v.field("markup", grammar.markup);
  v.field("call_required", grammar.call_required);
  v.field("content", grammar.content);
  v.field("reasoning_end", grammar.reasoning_end);
  v.field("tags", grammar.tags);
  v.field("triggers", grammar.triggers);
  v.field("strict", grammar.strict);
  v.field("whitespace", grammar.whitespace);
  v.field("trigger_token_ids", grammar.trigger_token_ids);
  v.field("bound_token_id", grammar.bound_token_id);
}

template <typename Visitor, typename Bias>
requires std::is_same_v<std::remove_const_t<Bias>, LogitBias>
void visit_fields(Visitor& v, Bias& bias) {
  v.field("token", bias.token);
  v.field("bias", bias.bias);
}

// As the engine accepted it: every default resolved.
template <typename Visitor, typename Asked>
requires std::is_same_v<std::remove_const_t<Asked>, EngineRequest>
void visit_fields(Visitor& v, Asked& asked) {
  v.field("prompt", asked.prompt);
  auto& p = asked.params;
  v.field("temperature", p.temperature);
  v.field("top_p", p.top_p);
  v.field("min_p", p.min_p);
  v.field("top_k", p.top_k);
  v.field("repetition_penalty", p.repetition_penalty);
  v.field("presence_penalty", p.presence_penalty);
  v.field("frequency_penalty", p.frequency_penalty);
  v.field("seed", p.seed);
  v.field("max_tokens", p.max_tokens);
  v.field("logit_bias", p.logit_bias);
  v.field("stop_tokens", p.stop_tokens);
  v.field("logprobs", p.logprobs);
  v.field("raw_logprobs", p.raw_logprobs);
  v.field("draft_tokens", p.draft_tokens);
  v.field("speculative_sampling", p.speculative_sampling);
  v.field("min_tokens", asked.min_tokens);
  v.field("allowed_tokens", asked.allowed_tokens);
  v.field("bad_words", asked.bad_words);
  v.field("forced_tokens", asked.forced_tokens);
  v.field("grammar", asked.grammar);
  v.field("prompt_logprobs", asked.prompt_logprobs);
  v.field("choice", asked.choice);
  v.field("priority", asked.priority);
  v.field("timeout_ms", asked.timeout);
  v.field("cache_salt", asked.cache_salt);
  v.field("use_prefix_cache", asked.use_prefix_cache);
  v.field("prefix_replay", asked.prefix_replay);
  v.field("replay_tokens", asked.replay_tokens);
  v.field("capture_routed_experts", asked.capture_routed_experts);
  v.field("capture_selected_indices", asked.capture_selected_indices);
}

template <typename Visitor, typename Answer>
requires std::is_same_v<std::remove_const_t<Answer>, LoggedAnswer>
void visit_fields(Visitor& v, Answer& answer) {
  v.field("at_ns", answer.at);
  v.field("reason", answer.reason);
  v.field("failure", answer.failure);
  v.field("weights_version", answer.weights_version);
  v.field("tokens", answer.tokens);
  v.field("prompt_logprobs", answer.prompt_logprobs);
}

}  // namespace deepinfer
