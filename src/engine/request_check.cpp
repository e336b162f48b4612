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

}  // namespace deepinfer
