#include "text/protocol/completions_answer.h"

#include <cmath>

#include "text/json_text.h"

namespace deepinfer {
namespace {

void append_number(std::string& out, float logprob) {
  // JSON has no infinity: a token that cannot occur gets what OpenAI's servers write.
  append_compact(out, Json(std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0));
}

// Parallel lists: tokens, token_logprobs, top_logprobs, text_offset (bytes of the tokens before).
void append_logprobs(std::string& out, const std::vector<TokenLogprobs>& tokens) {
  std::string spellings, numbers, top, offsets;
  size_t offset = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const TokenLogprobs& token = tokens[i];
    const char* comma = i == 0 ? "" : ",";
    append_json_string(spellings += comma, token.bytes);
    append_number(numbers += comma, token.logprob);
    top.append(comma).append("{");
    for (size_t j = 0; j < token.top.size(); ++j) {
      append_json_string(top += j == 0 ? "" : ",", token.top[j].bytes);
      append_number(top += ":", token.top[j].logprob);
    }
    top += "}";
    offsets.append(comma).append(std::to_string(offset));
    offset += token.bytes.size();
  }
  out.append("{\"tokens\":[").append(spellings).append("],\"token_logprobs\":[").append(numbers);
  out.append("],\"top_logprobs\":[").append(top).append("],\"text_offset\":[").append(offsets).append("]}");
}

}  // namespace

std::string completions_object(const CompletionsAnswer& answer) {
  std::string out = "{\"id\":";
  append_json_string(out, answer.identity.id);
  out += ",\"object\":\"text_completion\",\"created\":" + std::to_string(answer.identity.created) + ",\"model\":";
  append_json_string(out, answer.identity.model);
  out += ",\"choices\":[{\"index\":0,\"text\":";
  append_json_string(out, answer.text);
  out += ",\"logprobs\":";
  if (answer.with_logprobs) {
    append_logprobs(out, answer.logprobs);
  } else {
    out += "null";
  }
  out.append(",\"finish_reason\":\"").append(answer.end == AnswerEnd::kLength ? "length" : "stop").append("\"}]");
  const PromptUsage& prompt = answer.prompt;
  out += ",\"usage\":{\"prompt_tokens\":" + std::to_string(prompt.prompt_tokens) +
         ",\"completion_tokens\":" + std::to_string(answer.output_tokens) +
         ",\"total_tokens\":" + std::to_string(prompt.prompt_tokens + answer.output_tokens) +
         ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(prompt.cached_tokens) +
         "}},\"system_fingerprint\":";
  append_json_string(out, answer.identity.fingerprint);
  out += '}';
  return out;
}

}  // namespace deepinfer
