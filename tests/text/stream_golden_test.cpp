// Every row of tests/data/encoding/stream_decode.jsonl: model output in pieces becomes the events and the final object
// of its protocol.  Neighbouring deltas are joined and sequence numbers renumbered before comparing, as the rows
// demand.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "golden_rows.h"
#include "joined_events.h"
#include "text/prompt_encoding.h"
#include "text/protocol/answer_stream.h"
#include "text/protocol/chat_completions_request.h"
#include "text/protocol/messages_request.h"
#include "text/protocol/responses_request.h"
#include "text/tokenizer.h"

namespace deepinfer {
namespace {

struct Prepared {
  InferenceRequest request;
  std::unique_ptr<AnswerWriter> writer;
};

Prepared prepare(const std::string& protocol, const std::string& body) {
  Prepared out;
  if (protocol == "chat") {
    out.request = std::get<InferenceRequest>(parse_chat_completions(body));
    out.writer = make_chat_completions_writer(out.request);
  } else if (protocol == "messages") {
    out.request = std::get<InferenceRequest>(parse_messages(body));
    out.writer = make_messages_writer(out.request);
  } else {
    ResponsesRequest request = std::get<ResponsesRequest>(parse_responses(body));
    out.request = request.inference;
    out.writer = make_responses_writer(request);
  }
  return out;
}

AnswerEnd end_of(const Json& finish) {
  if (finish == "length") return AnswerEnd::kLength;
  if (finish == "content_filter") return AnswerEnd::kContentFilter;
  return AnswerEnd::kStop;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// The random part of call ids, as the goldens write it.
std::string without_random(std::string text, const Answer& answer) {
  for (const AnswerCall& call : answer.calls) replace_all(text, call.id, call.id.substr(0, call.id.size() - 24) + "@");
  return text;
}

struct Outcome {
  std::vector<std::pair<std::string, std::string>> events;
  std::string object;
  size_t steps_read = 0;
  Answer answer;
};

TokenLogprobs golden_logprobs(const Tokenizer& tokenizer, int32_t id, size_t place) {
  TokenLogprobs out{std::string(tokenizer.bytes(id)), -0.25f * static_cast<float>(1 + place % 3), {}};
  out.top.push_back({out.bytes, out.logprob});
  out.top.push_back({std::string(tokenizer.bytes(7)), -3.5f});
  return out;
}

// `cut`: 0 feeds the row's pieces as they are, otherwise they are cut again into pieces of that many characters.
Outcome run(const Json& row, const Tokenizer& tokenizer, size_t cut = 0) {
  Prepared prepared = prepare(row["protocol"], row["request"].dump());
  const RenderedPrompt prompt = encode_prompt(prepared.request.conversation).value();
  AnswerIdentity identity;
  identity.id = "ID";
  identity.model = "MODEL";
  identity.fingerprint = "fp";
  identity.random = 42;
  AnswerStream stream(std::move(prepared.writer), prepared.request.parser_options(prompt.start),
                      prepared.request.conversation.thinking, identity);
  Outcome out;
  const auto sink = [&](std::string_view event, std::string_view data) {
    out.events.emplace_back(std::string(event), std::string(data));
  };
  stream.open({row["prompt_usage"]["prompt_tokens"], row["prompt_usage"]["cache_hit_tokens"]}, sink);
  bool running = true;
  TokenPieces pieces(tokenizer);
  const bool by_id = row.contains("model_output_ids");
  for (const Json& step : row[by_id ? "model_output_ids" : "model_output_chunks"]) {
    if (!running) break;
    ++out.steps_read;
    AnswerPiece piece;
    if (by_id) {
      for (size_t i = 0; i < step.size(); ++i) {
        const int32_t id = step[i];
        const TokenLogprobs logprobs = golden_logprobs(tokenizer, id, i);
        pieces.add(id, prepared.request.logprobs ? &logprobs : nullptr);
      }
      piece = pieces.take();
    } else {
      piece.text = step.get<std::string>();
      piece.tokens = 1;
    }
    if (cut == 0 || by_id) {
      running = stream.push(piece, sink);
      continue;
    }
    std::string part;
    size_t characters = 0;
    int64_t tokens = 1;
    for (size_t at = 0; at < piece.text.size() && running; ++at) {
      part += piece.text[at];
      const bool ends = at + 1 == piece.text.size() || (static_cast<unsigned char>(piece.text[at + 1]) & 0xC0) != 0x80;
      if (ends && (++characters % cut == 0 || at + 1 == piece.text.size())) {
        running = stream.push({std::exchange(part, {}), std::exchange(tokens, 0), {}}, sink);
      }
    }
  }
  stream.finish(
      end_of(row["finish"]),
      [&](std::string_view text) {
        std::vector<int32_t> ids;
        EXPECT_TRUE(tokenizer.encode(text, ids).ok());
        return static_cast<int64_t>(ids.size());
      },
      0, sink);
  out.object = without_random(stream.object(), stream.answer());
  for (auto& [name, data] : out.events) data = without_random(data, stream.answer());
  out.answer = stream.answer();
  return out;
}

class StreamGoldens : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = Tokenizer::load(std::string(DEEPINFER_TEST_MODEL) + "/tokenizer.json");
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    tokenizer_ = std::move(*loaded);
    rows_ = golden_rows("stream_decode.jsonl");
    ASSERT_EQ(rows_.size(), 169u);
  }
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<Json> rows_;
};

std::vector<Event> parsed(const Outcome& outcome) {
  std::vector<Event> events;
  for (const auto& [name, data] : outcome.events) {
    events.push_back({name, data == "[DONE]" ? Json(data) : parse_json(data).value()});
  }
  return events;
}

TEST_F(StreamGoldens, EventsAndFinalObject) {
  size_t not_normative = 0;
  for (const Json& row : rows_) {
    SCOPED_TRACE(row["name"].get<std::string>());
    const Outcome outcome = run(row, *tokenizer_);
    if (row.contains("note")) {  // the reference's own bug; ours must only be well formed
      ++not_normative;
      parsed(outcome);
      continue;
    }
    std::vector<Event> expected;
    for (const Json& event : row["events"]) expected.push_back({event.value("event", ""), event["data"]});
    expected = joined(expected);
    const std::vector<Event> actual = joined(parsed(outcome));
    for (size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
      EXPECT_EQ(actual[i].name, expected[i].name) << i;
      // nlohmann::json: the order of keys is no difference.
      EXPECT_EQ(nlohmann::json(actual[i].data), nlohmann::json(expected[i].data)) << i;
    }
    EXPECT_EQ(actual.size(), expected.size());
    EXPECT_EQ(nlohmann::json(parse_json(outcome.object).value()), nlohmann::json(row["response"]));
    if (row.contains("chunks_read")) {
      EXPECT_EQ(outcome.steps_read, row["chunks_read"].get<size_t>());
    }
  }
  EXPECT_EQ(not_normative, 3u);
}

// The pieces in which text arrives change nothing but the borders of deltas.
TEST_F(StreamGoldens, CutsDoNotMatter) {
  for (const Json& row : rows_) {
    if (!row.contains("model_output_chunks")) continue;
    // Prose around JSON is one space per piece; that alone depends on the pieces.
    if (row["name"].get<std::string>().starts_with("json-")) continue;
    SCOPED_TRACE(row["name"].get<std::string>());
    const Outcome whole = run(row, *tokenizer_);
    const std::vector<Event> expected = joined(parsed(whole));
    for (const size_t cut : {1, 2, 3, 5, 8, 13}) {
      const Outcome pieces = run(row, *tokenizer_, cut);
      const std::vector<Event> actual = joined(parsed(pieces));
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < actual.size(); ++i) EXPECT_EQ(actual[i].data, expected[i].data) << i << " cut " << cut;
      EXPECT_EQ(pieces.object, whole.object);
      EXPECT_EQ(pieces.steps_read, whole.steps_read);
    }
  }
}

// O-13: every stream ends with exactly one finish reason and the protocol's last event, whatever ended it.
TEST_F(StreamGoldens, ExactlyOneEnd) {
  for (const Json& row : rows_) {
    SCOPED_TRACE(row["name"].get<std::string>());
    const std::vector<Event> events = parsed(run(row, *tokenizer_));
    const std::string protocol = row["protocol"];
    int ends = 0;
    for (const Event& event : events) {
      if (protocol == "chat" && event.data.is_object() && !event.data["choices"][0]["finish_reason"].is_null()) ++ends;
      if (event.name == "message_delta" || event.name == "response.completed" || event.name == "response.incomplete") {
        ++ends;
      }
    }
    EXPECT_EQ(ends, 1);
    if (protocol == "chat") {
      EXPECT_EQ(events.back().data, "[DONE]");
    } else if (protocol == "messages") {
      EXPECT_EQ(events.back().name, "message_stop");
    } else {
      EXPECT_TRUE(events.back().name == "response.completed" || events.back().name == "response.incomplete");
    }
  }
}

// O-04: calls are numbered 0, 1, ...; id and name come with a call's first delta only; the response id never changes.
TEST_F(StreamGoldens, ParallelCallsAreToldApart) {
  for (const Json& row : rows_) {
    if (row["name"] != "calls-parallel-chat") continue;
    int next = 0;
    std::set<std::string> ids;
    for (const Event& event : parsed(run(row, *tokenizer_))) {
      if (!event.data.is_object()) continue;
      EXPECT_EQ(event.data["id"], "ID");
      const Json& delta = event.data["choices"][0]["delta"];
      if (!delta.contains("tool_calls")) continue;
      const Json& call = delta["tool_calls"][0];
      if (call.contains("id")) {
        EXPECT_EQ(call["index"], next++);
        EXPECT_TRUE(call["function"].contains("name"));
        ids.insert(call["id"].get<std::string>());
      } else {
        EXPECT_EQ(call["index"], next - 1);
        EXPECT_FALSE(call["function"].contains("name"));
      }
    }
    EXPECT_GE(next, 2);
    EXPECT_EQ(ids.size(), static_cast<size_t>(next));
  }
}

}  // namespace
}  // namespace deepinfer
