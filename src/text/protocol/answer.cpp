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

void append_token(std::string& out, std::string_view bytes, float logprob) {
  out += "{\"token\":";
  append_json_string(out, printable(bytes));
  out += ",\"logprob\":";
  // JSON has no infinity: a token that cannot occur gets what OpenAI's servers write.
  append_compact(out, Json(std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0));
  out += ",\"bytes\":[";
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

}  // namespace

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
