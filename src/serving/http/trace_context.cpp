#include "serving/http/trace_context.h"

#include <algorithm>

namespace deepinfer::serving {
namespace {

bool is_hex(std::string_view text) {  // lower case, as the standard has it
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_zero(std::string_view text) {
  return text.find_first_not_of('0') == text.npos;
}

}  // namespace

std::optional<TraceContext> parse_traceparent(std::string_view field) {
  // "VV-TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT-PPPPPPPPPPPPPPPP-FF"; versions after 00 may have more behind another dash.
  constexpr std::size_t kLength = 55;
  if (field.size() < kLength || field[2] != '-' || field[35] != '-' || field[52] != '-') return std::nullopt;
  const std::string_view version = field.substr(0, 2), flags = field.substr(53, 2);
  const TraceContext context{field.substr(3, 32), field.substr(36, 16), ((flags[1] - '0') & 1) != 0};
  if (!is_hex(version) || version == "ff" || !is_hex(context.trace_id) || !is_hex(context.parent_id) || !is_hex(flags))
    return std::nullopt;
  if (field.size() > kLength && (version == "00" || field[kLength] != '-')) return std::nullopt;
  if (is_zero(context.trace_id) || is_zero(context.parent_id)) return std::nullopt;
  return context;
}

}  // namespace deepinfer::serving
