// One line of a batch file in OpenAI's form: {"custom_id": ..., "method": "POST", "url": ..., "body": {...}}.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "serving/requests/prepared_request.h"

namespace deepinfer::serving {

struct BatchLine {
  std::string custom_id;
  std::string url;
  Protocol protocol = Protocol::kChatCompletions;
  std::string body;  // JSON text
};

// Why a line is no request.
struct BatchLineError {
  std::optional<std::string> custom_id;  // where the line told it
  std::string code;                      // invalid_json, invalid_line, unknown_url, line_too_long
  std::string message;
};

std::variant<BatchLine, BatchLineError> parse_batch_line(std::string_view line);

}  // namespace deepinfer::serving
