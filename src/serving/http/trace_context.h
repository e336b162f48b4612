// W3C Trace Context, level 1: the field that names the trace a request belongs to.  Pure; a server passes it on and
// writes the trace's id into its logs.
#pragma once

#include <optional>
#include <string_view>

namespace deepinfer::serving {

struct TraceContext {
  std::string_view trace_id;   // 32 hex digits
  std::string_view parent_id;  // 16 hex digits
  bool sampled = false;
};

// Of a "traceparent" field; views into it.  Nothing where the field breaks the rules: it is then as if it was not
// there.
std::optional<TraceContext> parse_traceparent(std::string_view field);

}  // namespace deepinfer::serving
