#include "serving/batch/result_line.h"

#include <fmt/format.h>

#include "text/json_text.h"

namespace deepinfer::serving {
namespace {

constexpr std::string_view kCustomId = "\"custom_id\":";
constexpr std::string_view kAnswered = ",\"response\":{\"status_code\":200,";

std::string begin_line(std::string_view key, const std::optional<std::string>& custom_id) {
  std::string line = result_head(key).append(kCustomId);
  if (custom_id) {
    append_json_string(line, *custom_id);
  } else {
    line += "null";
  }
  return line;
}

}  // namespace

std::string result_head(std::string_view key) {
  return fmt::format("{{\"id\":\"batch_req_{}\",", key);
}

std::string answered_line(std::string_view key, const std::string& custom_id, int status, std::string_view body) {
  return begin_line(key, custom_id) +
         fmt::format(",\"response\":{{\"status_code\":{},\"request_id\":\"{}\",\"body\":", status, key)
             .append(body)
             .append("},\"error\":null}\n");
}

std::string error_line(std::string_view key, const BatchLineError& error) {
  std::string line = begin_line(key, error.custom_id) + ",\"response\":null,\"error\":{\"code\":";
  append_json_string(line, error.code);
  append_json_string(line += ",\"message\":", error.message);
  return line + "}}\n";
}

std::optional<bool> is_answer(std::string_view begun) {
  static const size_t kValue = result_head(std::string(kKeyDigits, '0')).size() + kCustomId.size();
  size_t at = kValue;
  if (begun.size() <= at) return std::nullopt;
  if (begun[at] == '"') {
    for (++at; at < begun.size() && begun[at] != '"'; ++at)
      if (begun[at] == '\\') ++at;
    ++at;
  } else {
    at += std::string_view("null").size();
  }
  if (begun.size() < at + kAnswered.size()) return std::nullopt;
  return begun.substr(at).starts_with(kAnswered);
}

}  // namespace deepinfer::serving
