// The lines of a results file: {"id":"batch_req_KEY","custom_id":...,"response":...,"error":...}.  Written by batch
// jobs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "serving/batch/batch_line.h"

namespace deepinfer::serving {

// Hexadecimal digits of InputLine::key.
inline constexpr size_t kKeyDigits = 32;

// What a line begins with: {"id":"batch_req_KEY",
std::string result_head(std::string_view key);

// A request that was answered, or refused with a status.  body: JSON text.
std::string answered_line(std::string_view key, const std::string& custom_id, int status, std::string_view body);
// A line that was no request, or was not run.
std::string error_line(std::string_view key, const BatchLineError& error);

// Whether a line of these that begins with `begun` is an answer with status 200; nothing: more of it is needed.
std::optional<bool> is_answer(std::string_view begun);

}  // namespace deepinfer::serving
