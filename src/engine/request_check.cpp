#include "engine/request_check.h"

#include <fmt/format.h>

namespace deepinfer {

Status check_request(std::span<const int32_t> prompt, const GenerationParams& params, const ModelInfo& model,
                     int64_t max_context) {
  DI_RETURN_IF_ERROR(validate(params, model.vocabulary));
  if (params.draft_tokens > model.draft_tokens)
    return invalid_argument(fmt::format("draft_tokens is {}; allowed: -1 to {}, the model's draft block",
                                        params.draft_tokens, model.draft_tokens));
  if (prompt.empty()) return invalid_argument("the prompt is empty; allowed: at least one token");
  // One place is left for an answer.
  if (static_cast<int64_t>(prompt.size()) >= max_context)
    return invalid_argument(
        fmt::format("the prompt has {} tokens; allowed: at most {}, one below the context length of {}", prompt.size(),
                    max_context - 1, max_context));
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] < 0 || prompt[i] >= model.vocabulary)
      return invalid_argument(
          fmt::format("token {} of the prompt is {}; allowed: 0 to {}", i, prompt[i], model.vocabulary - 1));
  }
  return {};
}

Status check_rules(const EngineRequest& request, const ModelInfo& model) {
  const auto token = [&](const char* field, int32_t id) -> Status {
    if (id >= 0 && id < model.vocabulary) return {};
    return invalid_argument(fmt::format("{} holds token {}; allowed: 0 to {}", field, id, model.vocabulary - 1));
  };
  for (const int32_t id : request.allowed_tokens) DI_RETURN_IF_ERROR(token("allowed_tokens", id));
  for (const std::vector<int32_t>& word : request.bad_words) {
    if (word.empty()) return invalid_argument("bad_words holds a sequence without tokens; allowed: one or more");
    for (const int32_t id : word) DI_RETURN_IF_ERROR(token("bad_words", id));
  }
  for (const int32_t id : request.forced_tokens) {
    if (id != -1) DI_RETURN_IF_ERROR(token("forced_tokens", id));
  }
  if (request.min_tokens < 0)
    return invalid_argument(fmt::format("min_tokens is {}; allowed: 0 or more", request.min_tokens));
  if (request.params.max_tokens > 0 && request.min_tokens > request.params.max_tokens)
    return invalid_argument(
        fmt::format("min_tokens is {}; allowed: up to max_tokens, {}", request.min_tokens, request.params.max_tokens));
  if (request.prompt_logprobs < -1 || request.prompt_logprobs > model.vocabulary)
    return invalid_argument(
        fmt::format("prompt_logprobs is {}; allowed: -1 to {}", request.prompt_logprobs, model.vocabulary));
  if (request.prefix_replay == PrefixReplay::kBounded) {
    if (model.min_replay_tokens == 0)
      return unsupported("prefix_replay is bounded: this model's layers do not allow it");
    if (request.replay_tokens < model.min_replay_tokens)
      return invalid_argument(fmt::format("replay_tokens is {}; allowed: {} or more (window and drafts)",
                                          request.replay_tokens, model.min_replay_tokens));
    if (request.prompt_logprobs >= 0)
      return invalid_argument(fmt::format(
          "prompt_logprobs is {}; allowed with bounded prefix_replay: -1, the layers do not see the whole prompt",
          request.prompt_logprobs));
  }
  // A choice's stream is 256 * choice, a 32-bit number.
  if (request.choice >= (1U << 24))
    return invalid_argument(fmt::format("choice is {}; allowed: 0 to {}", request.choice, (1U << 24) - 1));
  // Of rows that leave early there is nothing to report.
  if (request.prefix_replay == PrefixReplay::kBounded &&
      (request.capture_routed_experts || request.capture_selected_indices))
    return invalid_argument(
        "capture_routed_experts or capture_selected_indices with bounded prefix_replay; allowed: with exact");
  const int64_t reported = (request.capture_routed_experts ? model.choices.routers * model.choices.experts * 2 : 0) +
                           (request.capture_selected_indices ? model.choices.indexers * model.choices.selected * 4 : 0);
  if (const auto tokens = static_cast<int64_t>(request.prompt.size()); reported * tokens > kMostPromptChoiceBytes)
    return invalid_argument(fmt::format(
        "capture_selected_indices and capture_routed_experts: {} prompt tokens of {} bytes each; allowed: {} bytes",
        tokens, reported, kMostPromptChoiceBytes));
  if (request.timeout.count() < 0)
    return invalid_argument(fmt::format("timeout is {} ms; allowed: 0 (none) or more", request.timeout.count()));
  return {};
}

}  // namespace deepinfer
