// Every row of tests/data/encoding/stream_decode.jsonl through its route, under the profile of the official API: the
// engine says the row's output, the client sees the row's events, or its object where the request does not stream.
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "serving/api/api_test_server.h"
#include "text/golden_rows.h"
#include "text/joined_events.h"

namespace deepinfer::serving {
namespace {

std::string path_of(const std::string& protocol) {
  return protocol == "chat" ? "/v1/chat/completions" : "/v1/" + protocol;
}

GeneratedToken token_of(int32_t id, size_t place) {
  GeneratedToken token;
  token.token = id;
  token.logprob = -0.25f * static_cast<float>(1 + place % 3);
  token.top_logprobs = {{id, token.logprob}, {7, -3.5f}};
  return token;
}

ScriptedAnswer script_of(const Json& row) {
  ScriptedAnswer answer;
  if (row.contains("model_output_ids")) {
    for (const Json& step : row["model_output_ids"]) {
      answer.steps.emplace_back();
      for (size_t i = 0; i < step.size(); ++i) answer.steps.back().push_back(token_of(step[i], i));
    }
  } else {
    std::string text;
    for (const Json& piece : row["model_output_chunks"]) text += piece.get<std::string>();
    answer = scripted_text(test_tokenizer(), text);
  }
  answer.end = row["finish"] == "length" ? EndReason::kLength : EndReason::kStop;
  return answer;
}

// What the goldens fix by hand or leave open: names, times, usage of a prompt that no engine has seen, random ids.
void remove_open_fields(Json& value) {
  if (value.is_object()) {
    for (const char* key : {"created", "created_at", "completed_at", "usage", "model", "system_fingerprint"})
      value.erase(key);
    for (auto& [key, member] : value.items()) remove_open_fields(member);
  } else if (value.is_array()) {
    for (Json& element : value) remove_open_fields(element);
  }
}

Json comparable(Json value) {
  remove_open_fields(value);
  return value;
}

// In JSON mode each piece of output that is no JSON becomes one space.  Pieces are tokens here, so that the number of
// spaces does not depend on drafts; the goldens' pieces are longer.
Json with_single_spaces(const Json& value) {
  static const std::regex kSpaces(" +");
  return parse_json(std::regex_replace(value.dump(), kSpaces, " ")).value();
}

std::string without_random(std::string text) {
  static const std::regex kAnswer("(chatcmpl-|resp_|msg_)[0-9a-f]{32}");
  static const std::regex kCall("(call_[0-9]{2,}_(ET_)?)[A-Za-z0-9]{20}[0-9]{4}");
  text = std::regex_replace(text, kAnswer, "ID");
  return std::regex_replace(text, kCall, "$1@");
}

TEST(GoldenStreams, ThroughTheRoutes) {
  int streams = 0, objects = 0;
  for (const Json& row : golden_rows("stream_decode.jsonl")) {
    if (row.contains("note") || row["finish"] == "content_filter") continue;  // a bug of the reference; no such engine
    SCOPED_TRACE(row["name"].get<std::string>());
    const bool json_mode = row["name"].get<std::string>().rfind("json-", 0) == 0;
    const auto compared = [&](const Json& value) {
      return nlohmann::json(json_mode ? with_single_spaces(comparable(value)) : comparable(value));
    };
    ApiTestServer server([&](const EngineRequest&) { return script_of(row); }, Profile::kDeepSeek);
    for (const bool stream : {true, false}) {
      Json body = row["request"];
      if (!stream && body.contains("stream_options")) continue;
      // The chunks of a request that does not stream tell of the usage; nobody sees them here.
      if (stream && row["protocol"] == "chat" && !body.value("stream", false)) continue;
      body["stream"] = stream;
      const auto answer = server.send(path_of(row["protocol"]), body.dump());
      ASSERT_EQ(answer->status(), 200) << answer->body();
      const std::string text = without_random(answer->body());
      if (!stream) {
        ++objects;
        EXPECT_EQ(compared(parse_json(text).value()), compared(row["response"]));
        continue;
      }
      ++streams;
      std::vector<Event> expected, actual;
      for (const Json& event : row["events"]) expected.push_back({event.value("event", ""), event["data"]});
      for (const auto& [name, data] : events_of(text))
        actual.push_back({name, data == "[DONE]" ? Json(data) : parse_json(data).value()});
      expected = joined(expected);
      actual = joined(actual);
      ASSERT_EQ(actual.size(), expected.size()) << text;
      for (size_t i = 0; i < actual.size(); ++i) {
        EXPECT_EQ(actual[i].name, expected[i].name) << i;
        EXPECT_EQ(compared(actual[i].data), compared(expected[i].data)) << i;
      }
    }
  }
  EXPECT_GE(streams, 100);
  EXPECT_GE(objects, 100);
}

}  // namespace
}  // namespace deepinfer::serving
