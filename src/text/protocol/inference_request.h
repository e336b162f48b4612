// InferenceRequest: what the three protocols have in common once a request body has been read.
// Filled by protocol/{chat_completions,responses,messages}.h; the server builds prompt, sampling and parser from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/conversation.h"
#include "text/output_parser.h"
#include "text/protocol/generation_fields.h"

namespace deepinfer {

// Which dialect of the protocols is spoken.
enum class Profile {
  kDeepSeek,  // the official API to the letter
  // The same and: GenerationFields; temperature and top_p as they were given; max_completion_tokens, integer
  // reasoning_effort 1..100, role developer, chat_template_kwargs and continue_final_message in Chat Completions;
  // forced calls while thinking.
  kExtended,
};

// Settings of the server that change what a request means.
struct ProtocolOptions {
  Profile profile = Profile::kDeepSeek;
  // Names that `model` may have, in the order in which errors list them.
  std::vector<std::string> models = {"DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"};
  bool default_thinking = true;
  uint32_t max_tokens_chat = 393216;
  uint32_t max_tokens_thinking = 393216;
  // Refuse a thinking conversation whose assistant calls come back without their reasoning (otherwise: empty).
  bool reject_missing_reasoning = false;
  enum class WebSearch { kDrop, kReject };
  WebSearch responses_web_search = WebSearch::kDrop;
  WebSearch messages_web_search = WebSearch::kReject;
};

// What the engine may be asked to hold the output to (structured output).
struct OutputConstraint {
  enum class Kind { kToolCall, kToolCallRequired, kJson, kRegex };
  Kind kind = Kind::kJson;
  std::string schema;  // tools as a compact JSON array, a compact JSON Schema (empty: any JSON), or the expression
};
std::string_view to_string(OutputConstraint::Kind kind);

struct InferenceRequest {
  std::string model;  // the name that was asked for; answers echo it
  Conversation conversation;
  // Effective values (the official API: thinking pins temperature and bounds top_p; chat pins top_p).
  float temperature = 1.0f;
  float top_p = 1.0f;
  std::optional<uint32_t> max_tokens;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  bool logprobs = false;
  int top_logprobs = 0;
  bool stream = false;
  bool include_usage = false;
  std::optional<OutputConstraint> constraint;
  // What the content is held to where `constraint` is about calls: the response format of a request with tools.
  std::optional<OutputConstraint> content_constraint;
  GenerationFields generation;  // Profile::kExtended
  // Members of the body without effect, or given a value that is not the effective one.
  std::vector<std::string> ignored;

  // How the output of this request is read, given where its prompt ended.
  OutputParserOptions parser_options(OutputStart start) const;
};

}  // namespace deepinfer
