// Events of a stream as the goldens mean them: neighbouring deltas are one, sequence numbers count what is left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/json_text.h"

namespace deepinfer {

struct Event {
  std::string name;
  Json data;  // an object, or the string "[DONE]"
};

inline void append_array(Json& to, const Json& from) {
  for (const Json& element : from) to.push_back(element);
}

// Appends `next` to `last` when both are deltas of the same kind.
inline bool join(Event& last, const Event& next) {
  if (last.name != next.name || !last.data.is_object() || !next.data.is_object()) return false;
  if (last.name.empty()) {  // Chat Completions
    Json& a = last.data["choices"][0];
    const Json& b = next.data["choices"][0];
    if (!a["finish_reason"].is_null() || !b["finish_reason"].is_null() || a["delta"].contains("role")) return false;
    Json& x = a["delta"];
    const Json& y = b["delta"];
    const auto both_text = [&](const char* key) {
      return x.contains(key) && y.contains(key) && x[key].is_string() && y[key].is_string();
    };
    for (const char* key : {"reasoning_content", "content"}) {
      if (!both_text(key)) continue;
      x[key] = x[key].get<std::string>() + y[key].get<std::string>();
      if (b["logprobs"].is_object()) {
        if (a["logprobs"].is_null()) a["logprobs"] = Json{{key, Json::array()}};
        append_array(a["logprobs"][key], b["logprobs"][key]);
      }
      return true;
    }
    if (!x.contains("tool_calls") || !y.contains("tool_calls")) return false;
    Json& c = x["tool_calls"][0];
    const Json& d = y["tool_calls"][0];
    if (c.contains("id") || d.contains("id") || c["index"] != d["index"]) return false;
    c["function"]["arguments"] =
        c["function"]["arguments"].get<std::string>() + d["function"]["arguments"].get<std::string>();
    return true;
  }
  if (last.name.ends_with(".delta") && last.data["item_id"] == next.data["item_id"]) {  // Responses
    last.data["delta"] = last.data["delta"].get<std::string>() + next.data["delta"].get<std::string>();
    if (next.data.contains("logprobs")) append_array(last.data["logprobs"], next.data["logprobs"]);
    return true;
  }
  if (last.name == "content_block_delta" && last.data["index"] == next.data["index"] &&
      last.data["delta"]["type"] == next.data["delta"]["type"]) {
    for (const char* key : {"thinking", "text", "partial_json"}) {
      Json& x = last.data["delta"];
      if (x.contains(key)) x[key] = x[key].get<std::string>() + next.data["delta"][key].get<std::string>();
    }
    return true;
  }
  return false;
}

inline std::vector<Event> joined(const std::vector<Event>& events) {
  std::vector<Event> out;
  for (const Event& event : events) {
    if (out.empty() || !join(out.back(), event)) out.push_back(event);
  }
  int64_t sequence = 0;
  for (Event& event : out) {
    if (event.data.is_object() && event.data.contains("sequence_number")) event.data["sequence_number"] = sequence++;
  }
  return out;
}

}  // namespace deepinfer
