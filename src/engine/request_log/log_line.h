// The lines of a request log: JSON objects, one a line.  Numbers that have to come back to the bit do: parameters as
// decimal doubles, log-probabilities as hexadecimal floats in strings.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "engine/request_log/logged_request.h"

namespace deepinfer {

inline constexpr int kRequestLogVersion = 1;

struct LoggedEnd {
  RequestId id = 0;
  LoggedAnswer answer;
};

// With the line break.
std::string header_line(const RequestLogHeader& header);
std::string request_line(RequestId id, Time at, const EngineRequest& request);
std::string end_line(RequestId id, const LoggedAnswer& answer);

// Without the line break.  Errors: kCorruptFile that names the key; unknown and missing keys are errors.
using LogLine = std::variant<RequestLogHeader, LoggedRequest, LoggedEnd>;
Result<LogLine> parse_log_line(std::string_view line);

}  // namespace deepinfer
