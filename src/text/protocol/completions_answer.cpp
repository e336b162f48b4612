#include "text/protocol/completions_answer.h"

#include <cmath>

#include "text/json_text.h"

namespace deepinfer {
namespace {

using Answers = std::span<const CompletionsAnswer* const>;

void append_number(std::string& out, float logprob) {
  if (std::isnan(logprob)) {  // the first token of a prompt has none
    out += "null";
    return;
  }
  // JSON has no infinity: a token that cannot occur gets what OpenAI's servers write.
  append_compact(out, Json(std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0));
}

void append_top(std::string& out, const TokenLogprobs& token) {
  if (std::isnan(token.logprob)) {
    out += "null";
    return;
  }
  out += '{';
  for (size_t i = 0; i < token.top.size(); ++i) {
    append_json_string(out += i == 0 ? "" : ",", token.top[i].bytes);
    append_number(out += ":", token.top[i].logprob);
  }
  out += '}';
}

// Parallel lists of the tokens from `first` on: tokens, token_logprobs, top_logprobs, text_offset (bytes of the tokens
// before).
void append_logprobs(std::string& out, const std::vector<TokenLogprobs>& tokens, size_t first) {
  std::string spellings, numbers, top, offsets;
  size_t offset = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const TokenLogprobs& token = tokens[i];
    if (i < first) {
      offset += token.bytes.size();
      continue;
    }
    const char* comma = i == first ? "" : ",";
    append_json_string(spellings += comma, token.bytes);
    append_number(numbers += comma, token.logprob);
    append_top(top += comma, token);
    offsets.append(comma).append(std::to_string(offset));
    offset += token.bytes.size();
  }
  out.append("{\"tokens\":[").append(spellings).append("],\"token_logprobs\":[").append(numbers);
  out.append("],\"top_logprobs\":[").append(top).append("],\"text_offset\":[").append(offsets).append("]}");
}

void append_head(std::string& out, const AnswerIdentity& identity) {
  out += "{\"id\":";
  append_json_string(out, identity.id);
  out += ",\"object\":\"text_completion\",\"created\":" + std::to_string(identity.created) + ",\"model\":";
  append_json_string(out, identity.model);
  out += ",\"system_fingerprint\":";
  append_json_string(out, identity.fingerprint);
  out += ",\"choices\":[";
}

void append_choice(std::string& out, const CompletionsAnswer& answer, size_t text, size_t tokens, bool ended) {
  out += "{\"index\":" + std::to_string(answer.identity.choice) + ",\"text\":";
  append_json_string(out, std::string_view(answer.text).substr(text));
  out += ",\"logprobs\":";
  if (answer.with_logprobs && tokens < answer.logprobs.size()) {
    append_logprobs(out, answer.logprobs, tokens);
  } else {
    out += "null";
  }
  out += ",\"finish_reason\":";
  out += !ended ? "null" : answer.end == AnswerEnd::kLength ? "\"length\"" : "\"stop\"";
  out += '}';
}

void append_usage(std::string& out, Answers answers) {
  PromptUsage prompt;
  DraftUsage drafts;
  int64_t output_tokens = 0;
  for (const CompletionsAnswer* answer : answers) {
    prompt.prompt_tokens += answer->prompt.prompt_tokens;
    prompt.cached_tokens += answer->prompt.cached_tokens;
    output_tokens += answer->output_tokens;
    if (!answer->drafts) continue;
    drafts.drafted += answer->drafts->drafted;
    drafts.accepted += answer->drafts->accepted;
  }
  out += ",\"usage\":{\"prompt_tokens\":" + std::to_string(prompt.prompt_tokens) +
         ",\"completion_tokens\":" + std::to_string(output_tokens) +
         ",\"total_tokens\":" + std::to_string(prompt.prompt_tokens + output_tokens) +
         ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(prompt.cached_tokens) + '}';
  if (answers.front()->drafts)
    out += ",\"completion_tokens_details\":{\"accepted_prediction_tokens\":" + std::to_string(drafts.accepted) +
           ",\"rejected_prediction_tokens\":" + std::to_string(drafts.drafted - drafts.accepted) + '}';
  out += '}';
}

}  // namespace

std::string completions_object(Answers answers) {
  std::string out;
  append_head(out, answers.front()->identity);
  for (const CompletionsAnswer* answer : answers) {
    if (answer != answers.front()) out += ',';
    append_choice(out, *answer, 0, 0, true);
  }
  out += ']';
  const std::string& prompt_logprobs = answers.front()->prompt_logprobs;
  if (!prompt_logprobs.empty()) out.append(",\"prompt_logprobs\":").append(prompt_logprobs);
  append_usage(out, answers);
  out += '}';
  return out;
}

std::string completions_chunk(const CompletionsAnswer& answer, size_t text, size_t tokens) {
  std::string out;
  append_head(out, answer.identity);
  append_choice(out, answer, text, tokens, false);
  out += "]}";
  return out;
}

std::string completions_last_chunk(const CompletionsAnswer& answer, bool with_usage) {
  std::string out;
  append_head(out, answer.identity);
  append_choice(out, answer, answer.text.size(), answer.logprobs.size(), true);
  out += ']';
  const CompletionsAnswer* const all[] = {&answer};
  if (with_usage) append_usage(out, all);
  out += '}';
  return out;
}

std::string completions_usage_chunk(Answers answers) {
  std::string out;
  append_head(out, answers.front()->identity);
  out += ']';
  append_usage(out, answers);
  out += '}';
  return out;
}

}  // namespace deepinfer
