// The requests of a load benchmark: random tokens of given lengths, lengths like those of chats, or prompts of a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

namespace deepinfer::cli {

// "ShareGPT-like" lengths: log-normal, exp(mean + deviation * normal), cut to [4, 1024] tokens.  Prompts have a median
// of 81 tokens, answers of 134.
inline constexpr double kChatPromptMean = 4.4, kChatPromptDeviation = 1.2;
inline constexpr double kChatAnswerMean = 4.9, kChatAnswerDeviation = 0.9;
inline constexpr int64_t kChatLeastTokens = 4, kChatMostTokens = 1024;

struct WorkloadOptions {
  enum class Kind { kRandom, kChat, kFile };
  Kind kind = Kind::kRandom;
  int64_t prompt_tokens = 64;
  int64_t answer_tokens = 128;  // of every answer: end tokens do not end it
  double spread = 0;            // kRandom: lengths are uniform in [1 - spread, 1 + spread] of these
  std::string file;             // kFile: JSON lines, a string or {"prompt": text, "max_tokens": number}
  float temperature = 0;
  int32_t draft_tokens = -1;
  uint64_t seed = 0;
};

// The same for the same options.  kFile: the lines, again from the first where there are fewer than count.
Result<std::vector<EngineRequest>> make_workload(const WorkloadOptions& options, const Tokenizer& tokenizer,
                                                 int64_t count);

}  // namespace deepinfer::cli
