#include "text/protocol/answer.h"

#include <cmath>

#include "text/json_text.h"
#include "text/utf8.h"

namespace deepinfer {
namespace {

// Bytes that are no character are written as \xNN (a backslash and four characters in all).
std::string printable(std::string_view bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  while (!bytes.empty()) {
    const Utf8Prefix prefix = utf8_prefix(bytes);
    if (prefix.kind == Utf8Prefix::Kind::kCharacter) {
      out += bytes.substr(0, prefix.length);
    } else {
      for (const char c : bytes.substr(0, prefix.length)) {
        const auto byte = static_cast<unsigned char>(c);
        out += "\\x";
        out += kHex[byte >> 4];
        out += kHex[byte & 15];
      }
    }
    bytes.remove_prefix(prefix.length);
  }
  return out;
}

// JSON has no infinity: a token that cannot occur gets what OpenAI's servers write.
void append_logprob(std::string& out, float logprob) {
  append_compact(out, Json(std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0));
}

void append_token(std::string& out, std::string_view bytes, float logprob) {
  out += "{\"token\":";
  append_json_string(out, printable(bytes));
  out += ",\"logprob\":";
  append_logprob(out, logprob);
  out += ",\"bytes\":[";
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

void append_prompt_token(std::string& out, int32_t id, std::string_view bytes, float logprob) {
  out.append("\"").append(std::to_string(id)).append("\":{\"logprob\":");
  append_logprob(out, logprob);
  out += ",\"decoded_token\":";
  append_json_string(out, printable(bytes));
  out += '}';
}

}  // namespace

std::string prompt_logprobs_json(const std::vector<PromptToken>& tokens) {
  std::string out = "[null";
  for (const PromptToken& token : tokens) {
    out += ",{";
    append_prompt_token(out, token.id, token.logprobs.bytes, token.logprobs.logprob);
    for (size_t i = 0; i < token.top_ids.size(); ++i) {
      if (token.top_ids[i] == token.id) continue;
      out += ',';
      append_prompt_token(out, token.top_ids[i], token.logprobs.top[i].bytes, token.logprobs.top[i].logprob);
    }
    out += '}';
  }
  out += ']';
  return out;
}

void append_logprobs(std::string& out, const TokenLogprobs& token) {
  append_token(out, token.bytes, token.logprob);
  out += ",\"top_logprobs\":[";
  for (size_t i = 0; i < token.top.size(); ++i) {
    if (i > 0) out += ',';
    append_token(out, token.top[i].bytes, token.top[i].logprob);
    out += '}';
  }
  out += "]}";
}

}  // namespace deepinfer
