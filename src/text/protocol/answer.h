// Answer: what one request has produced so far, in no protocol's form.  AnswerStream fills it, the writers of the three
// protocols turn it into events and the final object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer {

// What the server knows of an answer before it begins.
struct AnswerIdentity {
  std::string id;           // unique; item and call ids are derived from it
  std::string model;        // the name that was asked for
  std::string fingerprint;  // Chat Completions: system_fingerprint
  int64_t created = 0;      // seconds since 1970
  uint64_t random = 0;      // seeds the ids of tool calls
  int choice = 0;           // of several answers to one request (Chat Completions, Completions)
};

struct PromptUsage {
  int64_t prompt_tokens = 0;  // images at their full number
  int64_t cached_tokens = 0;
};

// Tokens that a draft proposed and that were verified, and those of them that became part of the answer.
struct DraftUsage {
  int64_t drafted = 0;
  int64_t accepted = 0;
};

enum class AnswerEnd { kStop, kLength, kContentFilter };

struct TokenLogprobs {
  struct Alternative {
    std::string bytes;
    float logprob = 0;
  };
  std::string bytes;
  float logprob = 0;
  std::vector<Alternative> top;
};

struct AnswerCall {
  std::string id;
  std::string name;
  std::string arguments;
  bool closed = false;
};

struct Answer {
  AnswerIdentity identity;
  bool thinking = false;              // the request's mode
  bool begins_with_thinking = false;  // false too when a given answer is continued
  PromptUsage prompt;
  std::optional<DraftUsage> drafts;  // where the usage is to tell of them
  int64_t output_tokens = 0;
  int64_t reasoning_tokens = 0;  // known at the end
  std::string reasoning;
  std::string content;
  std::vector<AnswerCall> calls;
  // Log-probabilities as JSON objects joined by ","; empty when there are none.
  std::string reasoning_logprobs;
  std::string content_logprobs;
  AnswerEnd end = AnswerEnd::kStop;
  std::string stop;  // the stop string that ended it, empty when none did
  bool stopped_by_string = false;
  int64_t completed = 0;        // seconds since 1970
  std::string prompt_logprobs;  // a JSON array, as prompt_logprobs_json() writes it; empty: none were asked for
};

// [null,{"ID":{"logprob":...,"decoded_token":...},...},...]: of each token of the prompt, the first apart, itself and
// the most likely ones.
struct PromptToken {
  int32_t id = 0;
  TokenLogprobs logprobs;
  std::vector<int32_t> top_ids;  // of logprobs.top
};
std::string prompt_logprobs_json(const std::vector<PromptToken>& tokens);

// {"token":...,"logprob":...,"bytes":[...],"top_logprobs":[...]}
void append_logprobs(std::string& out, const TokenLogprobs& token);

}  // namespace deepinfer
