#include "answer_json.h"

#include <string>

#include "text/utf8.h"

namespace deepinfer::cli {
namespace {

// {"id", "token", "logprob"}; "bytes" too where the token is no whole text.
Json token_json(const Tokenizer& tokenizer, int32_t id, float logprob) {
  const std::string_view bytes = tokenizer.bytes(id);
  Json object{{"id", id}, {"token", std::string(bytes)}};
  if (!is_valid_utf8(bytes)) object["bytes"] = std::vector<uint8_t>(bytes.begin(), bytes.end());
  object["logprob"] = logprob;
  return object;
}

Json logprobs_json(const Tokenizer& tokenizer, const GenerationResult& run, bool alternatives) {
  Json tokens = Json::array();
  for (const GeneratedToken& token : run.tokens) {
    Json entry = token_json(tokenizer, token.token, token.logprob);
    if (alternatives) {
      Json top = Json::array();
      for (const TokenLogprob& other : token.top_logprobs)
        top.push_back(token_json(tokenizer, other.token, other.logprob));
      entry["top"] = std::move(top);
    }
    tokens.push_back(std::move(entry));
  }
  return tokens;
}

double per_second(int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

}  // namespace

Json answer_json(const Answer& answer, const LoadedModel& model, const GenerationParams& params) {
  const GenerationResult& run = answer.generation;
  const auto completion = static_cast<int64_t>(run.tokens.size());
  Json object{{"model", model.name}, {"content", answer.content}, {"reasoning", nullptr}};
  if (!answer.reasoning.empty()) object["reasoning"] = answer.reasoning;
  if (!answer.tool_calls.empty()) {
    Json calls = Json::array();
    for (const ToolCall& call : answer.tool_calls)
      calls.push_back(Json{{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
    object["tool_calls"] = std::move(calls);
  }
  object["finish_reason"] = answer.finish_reason;
  object["usage"] = {{"prompt_tokens", run.prompt_tokens},
                     {"completion_tokens", completion},
                     {"reasoning_tokens", answer.reasoning_tokens},
                     {"total_tokens", run.prompt_tokens + completion}};
  if (model.kv_cache) {
    object["usage"]["cached_tokens"] = run.reused_tokens;
    object["usage"]["disk_tokens"] = run.disk_tokens;
  }
  object["seed"] = params.seed;
  if (params.logprobs >= 0) object["logprobs"] = logprobs_json(*model.tokenizer, run, params.logprobs > 0);
  object["drafts"] = {{"rounds", run.rounds}, {"drafted", run.drafted}, {"accepted", run.accepted}};
  object["speculative_sampling"] = run.marks.rejection_sampled ? "rejection" : "exact";
  object["prefix_replay"] = run.marks.bounded_prefix ? "bounded" : "exact";
  object["timings"] = {
      {"load_seconds", model.load_seconds},
      {"prefill_seconds", run.prefill_seconds},
      {"decode_seconds", run.decode_seconds},
      {"prefill_tokens_per_second", per_second(run.prompt_tokens - run.reused_tokens, run.prefill_seconds)},
      {"decode_tokens_per_second", per_second(completion, run.decode_seconds)}};
  object["backend"] = model.generator->backend_name();
  return object;
}

}  // namespace deepinfer::cli
