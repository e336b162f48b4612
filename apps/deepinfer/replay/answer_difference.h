// Where an answer differs from the one in a request log.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/request_log/logged_request.h"

namespace deepinfer::cli {

struct ReplayedAnswer {
  std::vector<GeneratedToken> tokens;
  std::vector<GeneratedToken> prompt_logprobs;
  RequestSummary summary;
};

// What of the logged answer can be asked for again: one that was cut from outside (cancelled, out of time) is the
// beginning of an answer, which is compared as far as it goes.
bool is_beginning(const LoggedAnswer& logged);
// Whether it is a function of the request: not where drafts have a say in it (SpeculativeSampling::kRejection).
bool is_repeatable(const EngineRequest& request);

// The first difference in words; nothing where both are the same, tokens and log-probabilities bit for bit.
std::optional<std::string> first_difference(const LoggedRequest& logged, const ReplayedAnswer& answer);

}  // namespace deepinfer::cli
