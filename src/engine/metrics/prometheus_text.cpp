#include <initializer_list>
#include <string>
#include <utility>

#include "engine/engine.h"
#include "engine/metrics/engine_metrics.h"
#include "engine/metrics/exposition.h"

namespace deepinfer {
namespace {

double seconds(const Counter& nanoseconds) {
  return static_cast<double>(nanoseconds.value()) / 1e9;
}

void write_requests(Exposition& out, const EngineMetrics& metrics) {
  out.gauge("vllm:num_requests_waiting", "Requests in the queue.", metrics.waiting.value());
  out.gauge("vllm:num_requests_running", "Requests in the engine.", metrics.running.value());
  out.gauge("deepinfer_requests_prefilling", "Running requests whose prompt is being processed.",
            metrics.prefilling.value());
  out.begin_counter("vllm:request_success_total", "Requests that ended as they should, by reason.");
  for (const auto& [reason, counter] : std::initializer_list<std::pair<const char*, const Counter*>>{
           {"stop", &metrics.stopped}, {"length", &metrics.length}, {"abort", &metrics.cancelled}})
    out.sample(counter->value(), {{"finished_reason", reason}});
  out.begin_counter("deepinfer_requests_failed_total", "Requests that ended otherwise, by reason.");
  out.sample(metrics.expired.value(), {{"reason", "deadline"}});
  out.sample(metrics.failed.value(), {{"reason", "error"}});
  out.counter("vllm:num_preemptions_total", "Requests that had to wait again.", metrics.preemptions.value());
  out.counter("vllm:prompt_tokens_total", "Prompt tokens of requests that ended.", metrics.prompt_tokens.value());
  out.counter("vllm:generation_tokens_total", "Tokens of answers.", metrics.answer_tokens.value());
}

void write_cache(Exposition& out, const EngineMetrics& metrics) {
  const int64_t held = metrics.held_blocks.value(), total = metrics.total_blocks.value();
  out.begin_gauge("vllm:kv_cache_usage_perc", "Share of the cache that running requests hold; 1 is all of it.");
  out.sample(total == 0 ? 0.0 : static_cast<double>(held) / static_cast<double>(total));
  out.begin_gauge("deepinfer_cache_blocks_held", "Cache blocks of running requests, by cache group and tier.");
  out.sample(held, {{"group", "all"}, {"tier", "device"}});
  out.begin_gauge("deepinfer_cache_blocks_capacity", "Cache blocks that there are.");
  out.sample(total, {{"group", "all"}, {"tier", "device"}});
  out.counter("vllm:prefix_cache_queries_total", "Prompt tokens that were looked for in the prefix cache.",
              metrics.prompt_tokens.value());
  const int64_t cached = metrics.cached_tokens.value(), from_below = metrics.tier_tokens.value();
  out.counter("vllm:prefix_cache_hits_total", "Of them, those that were there.", cached);
  out.begin_counter("deepinfer_prompt_tokens_cached_total", "The same, by where they lay before.");
  out.sample(cached - from_below, {{"tier", "device"}});
  out.sample(from_below, {{"tier", "below"}});
}

void write_drafts(Exposition& out, const EngineMetrics& metrics) {
  out.counter("vllm:spec_decode_num_drafts_total", "Decode rounds with drafts.", metrics.draft_rounds.value());
  out.counter("vllm:spec_decode_num_draft_tokens_total", "Draft tokens that were verified.", metrics.drafted.value());
  out.counter("vllm:spec_decode_num_accepted_tokens_total", "Draft tokens that were delivered.",
              metrics.accepted.value());
  out.begin_counter("vllm:spec_decode_num_accepted_tokens_per_pos_total", "The same, by place in the draft.");
  for (size_t place = 0; place < metrics.accepted_at.size(); ++place) {
    const int64_t accepted = metrics.accepted_at[place].value();
    if (place > 0 && accepted == 0) break;
    out.sample(accepted, {{"position", std::to_string(place)}});
  }
  out.histogram("deepinfer_round_tokens", "Tokens of a decode round, the one without draft included.",
                metrics.accepted_length);
}

void write_steps(Exposition& out, const EngineMetrics& metrics) {
  out.counter("deepinfer_steps_total", "Steps of the engine.", metrics.steps.value());
  out.counter("deepinfer_prefill_rows_total", "Prompt tokens that were computed.", metrics.prefill_rows.value());
  out.counter("deepinfer_decode_rows_total", "Rows of decode rounds, drafts included.", metrics.decode_rows.value());
  out.begin_counter("deepinfer_step_time_seconds_total", "Time of steps: planning on the host, running on the device.");
  out.sample(seconds(metrics.plan_nanoseconds), {{"part", "plan"}});
  out.sample(seconds(metrics.run_nanoseconds), {{"part", "run"}});
  const int64_t attention = metrics.attention_megaflops.value();
  out.begin_counter("deepinfer_flops_total",
                    "Floating-point operations of steps, from the model's shapes; drafts apart.");
  out.sample(1e6 * static_cast<double>(attention), {{"part", "attention"}});
  out.sample(1e6 * static_cast<double>(metrics.megaflops.value() - attention), {{"part", "products"}});
  out.histogram("deepinfer_step_seconds", "Time of a step on the device.", metrics.step_seconds);
}

void write_times(Exposition& out, const EngineMetrics& metrics) {
  out.histogram("vllm:request_queue_time_seconds", "Submission to first plan.", metrics.queue_seconds);
  out.histogram("vllm:request_prefill_time_seconds", "First plan to first token.", metrics.prefill_seconds);
  out.histogram("vllm:request_decode_time_seconds", "First token to end.", metrics.decode_seconds);
  out.histogram("vllm:time_to_first_token_seconds", "Submission to first token.", metrics.first_token_seconds);
  out.histogram("vllm:inter_token_latency_seconds", "Time between tokens of an answer.", metrics.inter_token_seconds);
  out.histogram("vllm:time_per_output_token_seconds", "The same by its older name.", metrics.inter_token_seconds);
  out.histogram("vllm:e2e_request_latency_seconds", "Submission to end.", metrics.total_seconds);
  out.histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", metrics.request_prompt);
  out.histogram("vllm:request_generation_tokens", "Tokens of an answer.", metrics.request_answer);
}

}  // namespace

std::string prometheus_text(const EngineMetrics& metrics, std::string_view model) {
  Exposition out({{"model_name", model}});
  write_requests(out, metrics);
  write_cache(out, metrics);
  write_drafts(out, metrics);
  write_steps(out, metrics);
  write_times(out, metrics);
  return out.take();
}

std::string prometheus_text(const EngineStats& stats, std::string_view model) {
  Exposition out({{"model_name", model}});
  out.begin_gauge("deepinfer_engine_state", "1 for the state that the engine is in.");
  for (const EngineState state :
       {EngineState::kRunning, EngineState::kPaused, EngineState::kAsleep, EngineState::kFailed})
    out.sample(int64_t{stats.state == state}, {{"state", to_string(state)}});
  out.gauge("deepinfer_weights_version", "Times that other weights were loaded.", stats.weights_version);
  out.begin_counter("deepinfer_preempted_tokens_total",
                    "Tokens that preempted requests had lost, by how they came back.");
  out.sample(stats.scheduler.recomputed_tokens, {{"how", "recomputed"}});
  out.sample(stats.scheduler.swapped_tokens, {{"how", "swapped"}});
  const PrefixTierStats& tier = stats.tier;
  out.gauge("deepinfer_tier_bytes", "Bytes of prefixes below the pool, in host memory or a folder.",
            tier.store.bytes_held);
  out.begin_counter("deepinfer_tier_questions_total", "Prefixes that were looked for below the pool, by outcome.");
  out.sample(tier.hits, {{"outcome", "hit"}});
  out.sample(tier.questions - tier.hits, {{"outcome", "miss"}});
  out.begin_counter("deepinfer_tier_transferred_bytes_total", "Bytes between the pool and what is below it.");
  out.sample(tier.store.bytes_written, {{"direction", "down"}});
  out.sample(tier.store.bytes_read, {{"direction", "up"}});
  out.begin_counter("deepinfer_tier_lost_total", "What the tier could not keep or give back, by reason.");
  out.sample(tier.dropped, {{"reason", "queue_full"}});
  out.sample(tier.failures, {{"reason", "write_failed"}});
  out.sample(tier.store.corrupt, {{"reason", "corrupt"}});
  out.sample(tier.store.evictions, {{"reason", "evicted"}});
  return out.take();
}

}  // namespace deepinfer
