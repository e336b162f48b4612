#include "serving/requests/request_preparation.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

namespace deepinfer::serving {

AnswerIdentity identity_of(const std::string& model, const RequestIdentity& request, const RequestContext& context) {
  AnswerIdentity identity;
  identity.id = request.id;
  identity.model = model;
  identity.fingerprint = context.fingerprint;
  identity.created = request.created;
  identity.random = request.random;
  return identity;
}

Result<int64_t> most_tokens(std::optional<uint32_t> given, int64_t fallback, int64_t prompt, int64_t context) {
  const int64_t completion = given ? *given : 0;
  if (prompt + std::max<int64_t>(completion, 1) > context)
    return invalid_argument(fmt::format(
        "This model's maximum context length is {} tokens. However, you requested {} tokens ({} in the messages, {} in "
        "the completion). Please reduce the length of the messages or completion.",
        context, prompt + completion, prompt, completion));
  return given ? completion : std::min(fallback, context - prompt);
}

Status check_priority(const GenerationFields& fields, const RequestIdentity& identity) {
  if (fields.priority <= identity.highest_priority) return {};
  return invalid_argument(
      fmt::format("Invalid priority value, the valid range of priority for this API key is [{}, {}]", -kHighestPriority,
                  identity.highest_priority));
}

void take_shared(const GenerationFields& fields, const RequestIdentity& identity, const RequestContext& context,
                 const AnswerEnds& ends, EngineRequest& request) {
  GenerationParams& params = request.params;
  params.draft_tokens = context.draft_tokens;
  params.speculative_sampling = context.speculative_sampling;
  request.prefix_replay = context.prefix_replay;
  params.stop_tokens = ends.stops;
  params.presence_penalty = fields.presence_penalty;
  params.frequency_penalty = fields.frequency_penalty;
  params.repetition_penalty = fields.repetition_penalty;
  params.min_p = fields.min_p;
  params.top_k = fields.top_k;
  for (const auto& [token, value] : fields.logit_bias) params.logit_bias.push_back({token, value});
  request.min_tokens = fields.min_tokens;
  request.prompt_logprobs = fields.prompt_logprobs.value_or(-1);
  request.priority = identity.base_priority + fields.priority;
  request.timeout = fields.timeout;
  request.cache_salt = identity.tenant;
  if (!fields.cache_salt.empty())
    request.cache_salt = XXH3_64bits_withSeed(fields.cache_salt.data(), fields.cache_salt.size(), identity.tenant);
}

}  // namespace deepinfer::serving
