// Request logs: what an engine was asked comes back field by field and bit by bit; every beginning of a log is one;
// damaged logs are refused with their line.
#include "engine/request_log/request_log.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>

#include "backends/cpu_backends.h"
#include "engine/engine_run.h"
#include "engine/request_log/log_line.h"
#include "tensor/temporary_folder.h"

namespace deepinfer {
namespace {

RequestLogHeader some_header() {
  RequestLogHeader header;
  header.build = "c0ffee";
  header.backend = "cpu/avx2";
  header.model_name = "a \"name\"\n";
  header.max_context = 4096;
  header.draft_schedule = "lagged";
  return header;
}

EngineRequest every_field() {
  EngineRequest request;
  request.prompt = {0, 5, 129279};
  GenerationParams& p = request.params;
  p.temperature = 0.7f;
  p.top_p = std::nextafter(1.0f, 0.0f);
  p.min_p = std::numeric_limits<float>::denorm_min();
  p.top_k = 40;
  p.repetition_penalty = 1.1f;
  p.presence_penalty = -1.9999999f;
  p.frequency_penalty = 0.1f;
  p.seed = std::numeric_limits<uint64_t>::max();
  p.max_tokens = 17;
  p.logit_bias = {{3, -1e9f}, {4, 1.0f / 3}};
  p.stop_tokens = {1, 2};
  p.logprobs = 5;
  p.raw_logprobs = true;
  p.draft_tokens = 3;
  p.speculative_sampling = SpeculativeSampling::kRejection;
  request.min_tokens = 2;
  request.allowed_tokens = {7, 8};
  request.bad_words = {{1}, {2, 3}};
  request.forced_tokens = {-1, 6};
  GrammarSpec& grammar = request.grammar.emplace();
  grammar.kind = GrammarSpec::Kind::kToolCalls;
  grammar.text = "\xFFnot UTF-8\x01";
  grammar.tools = {{"f", R"({"type":"object"})", false}};
  grammar.content = GrammarSpec::Content::kRegex;
  grammar.reasoning_end = 11;
  grammar.markup.begin = "<｜x｜>\n";
  grammar.call_required = true;
  grammar.tags = {{"<a>", "{}", "</a>"}};
  grammar.triggers = {"<"};
  grammar.strict = false;
  grammar.whitespace = JsonWhitespace::kNone;
  grammar.trigger_token_ids = {9};
  grammar.bound_token_id = 10;
  request.prompt_logprobs = 2;
  request.choice = 3;
  request.priority = -4;
  request.timeout = std::chrono::milliseconds(1500);
  request.cache_salt = uint64_t{1} << 63;
  request.use_prefix_cache = false;
  request.prefix_replay = PrefixReplay::kBounded;
  request.replay_tokens = 139;
  request.capture_routed_experts = request.capture_selected_indices = true;
  return request;
}

LoggedAnswer some_answer() {
  LoggedAnswer answer;
  answer.at = Time(123);
  answer.reason = EndReason::kError;
  answer.failure = "a \"failure\"";
  GeneratedToken token;
  token.token = 5;
  token.logprob = -0.1f;
  token.top_logprobs = {{6, -std::numeric_limits<float>::infinity()}, {7, -1e-42f}, {-1, 0}};
  answer.tokens = {token, {}};
  answer.prompt_logprobs = {token};
  return answer;
}

template <typename T>
T parsed(const std::string& line) {
  EXPECT_EQ(line.back(), '\n');
  auto parsed = parse_log_line(std::string_view(line).substr(0, line.size() - 1));
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return std::get<T>(std::move(parsed).value());
}

// Writing what was read gives the same line: the text holds every field that the writer knows, and floats come back to
// the bit because the line writes hexadecimal floats or the decimal double of the float.
TEST(RequestLogLine, ComesBackFieldByField) {
  const std::string header = header_line(some_header());
  EXPECT_EQ(header_line(parsed<RequestLogHeader>(header)), header);
  const EngineRequest asked = every_field();
  const std::string line = request_line(77, Time(5), asked);
  const LoggedRequest got = parsed<LoggedRequest>(line);
  EXPECT_EQ(request_line(got.id, got.at, got.request), line);
  EXPECT_EQ(got.id, 77U);
  EXPECT_EQ(got.request.prompt, asked.prompt);
  EXPECT_EQ(got.request.params.seed, asked.params.seed);
  const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
  EXPECT_EQ(bits(got.request.params.top_p), bits(asked.params.top_p));
  EXPECT_EQ(bits(got.request.params.min_p), bits(asked.params.min_p));
  EXPECT_EQ(bits(got.request.params.presence_penalty), bits(asked.params.presence_penalty));
  EXPECT_EQ(bits(got.request.params.logit_bias[1].bias), bits(asked.params.logit_bias[1].bias));
  EXPECT_EQ(got.request.grammar->text, asked.grammar->text);
  EXPECT_EQ(got.request.grammar->bound_token_id, asked.grammar->bound_token_id);
  EXPECT_EQ(got.request.cache_salt, asked.cache_salt);
  EXPECT_EQ(got.request.timeout, asked.timeout);
  const std::string end = end_line(77, some_answer());
  const LoggedEnd back = parsed<LoggedEnd>(end);
  EXPECT_EQ(end_line(back.id, back.answer), end);
  EXPECT_EQ(bits(back.answer.tokens[0].top_logprobs[1].logprob), bits(-1e-42f));
}

// This does not compile when a structure has got a field: name it in request_fields.h, and count here.
TEST(RequestLogLine, HasEveryField) {
  const EngineRequest request = every_field();
  [[maybe_unused]] const auto& [r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13, r14, r15, r16, r17] = request;
  [[maybe_unused]] const auto& [p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15] = request.params;
  [[maybe_unused]] const auto& [g1, g2, g3, g4, g5, g6, g7, g8, g9, g10, g11, g12, g13] = *request.grammar;
  [[maybe_unused]] const auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11] = request.grammar->markup;
  [[maybe_unused]] const auto& [t1, t2, t3] = request.grammar->tools[0];
  [[maybe_unused]] const auto& [s1, s2, s3] = request.grammar->tags[0];
  const std::string line = request_line(1, Time(0), request);
  // Of all but params, which are beside the others; 2 are the number and the time.
  size_t names = 0;
  for (size_t at = line.find("\":"); at != std::string::npos; at = line.find("\":", at + 1)) ++names;
  EXPECT_GE(names, 2U + 16 + 15 + 13 + 11 + 3 + 3);
}

TEST(RequestLogLine, RefusesUnknownAndMissingKeys) {
  const std::string line = request_line(1, Time(0), every_field());
  const std::string seed = "\"seed\":18446744073709551615,";
  ASSERT_NE(line.find(seed), std::string::npos);
  std::string missing = line, more = line, wrong = line, many = line;
  missing.erase(missing.find(seed), seed.size());
  more.insert(1, "\"new\":1,");
  wrong.replace(wrong.find(seed), seed.size(), "\"seed\":-1,");
  many.replace(many.find("\"top_k\":40"), 10, "\"top_k\":4000000000");
  for (const auto& [text, message] :
       {std::pair(missing, "seed is missing"), std::pair(more, "keys"), std::pair(wrong, "seed is out of range"),
        std::pair(many, "top_k is out of range"), std::pair(std::string("[]"), "no object"),
        std::pair(std::string("{"), "")}) {
    const auto parsed = parse_log_line(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.status().message().find(message), std::string::npos) << parsed.status().message();
  }
}

std::string whole_log() {
  return header_line(some_header()) + request_line(1, Time(0), every_field()) + request_line(2, Time(1), {}) +
         end_line(2, some_answer()) + end_line(1, {});
}

TEST(RequestLogFile, EveryBeginningIsALog) {
  const std::string text = whole_log();
  const size_t header_end = text.find('\n') + 1;
  for (size_t bytes = 0; bytes <= text.size(); ++bytes) {
    const auto log = parse_request_log(std::string_view(text).substr(0, bytes), "log");
    ASSERT_EQ(log.ok(), bytes >= header_end) << bytes;
    if (!log.ok()) continue;
    EXPECT_EQ(log->torn, text[bytes - 1] != '\n') << bytes;
    const auto lines = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bytes), '\n');
    EXPECT_EQ(std::ssize(log->requests), std::min<int64_t>(2, lines - 1)) << bytes;
  }
}

TEST(RequestLogFile, ErrorsNameTheLine) {
  const std::string header = header_line(some_header()), one = request_line(1, Time(0), {}), end = end_line(1, {});
  std::string newer = header;
  newer.replace(newer.find(":1,"), 3, ":2,");
  for (const auto& [text, message] :
       {std::pair(one, "log: line 1: the first line"), std::pair(header + header, "log: line 2: a second header"),
        std::pair(header + end, "log: line 2: end of request 1, which no line"),
        std::pair(header + one + one, "log: line 3: request 1 is there already"),
        std::pair(header + one + end + end, "log: line 4: a second end"),
        std::pair(header + "\n" + one, "log: line 2: "), std::pair(newer, "this build reads version 1"),
        std::pair(std::string(), "no whole line")}) {
    const auto log = parse_request_log(text, "log");
    ASSERT_FALSE(log.ok()) << message;
    EXPECT_NE(log.status().message().find(message), std::string::npos) << log.status().message();
  }
}

// One byte changed anywhere is another log or an error, never more.
TEST(RequestLogFile, DamagedBytesAreAnErrorOrAnotherLog) {
  const std::string text = whole_log();
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = text;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    const auto log = parse_request_log(damaged, "log");
    EXPECT_TRUE(log.ok() || !log.status().message().empty());
  }
}

// What the engine tells a log: requests as accepted, every default resolved, and the answers that callbacks get.
TEST(RequestLogFile, HoldsWhatTheEngineDid) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "run.log";
  auto log = RequestLog::create(file);
  ASSERT_TRUE(log.ok()) << log.status().message();
  EngineOptions options;
  options.model = DEEPINFER_TEST_MODEL;
  options.max_context = 512;
  options.draft_schedule = DraftSchedule::kAll;
  options.observers = {*log};
  SeenRequest sampled, failed;
  {
    EngineRun run({"cpu", [] { return make_cpu_path(machine_paths().back(), 1); }}, options);
    const auto header = request_log_header(run.engine(), options, "build", "tiny");
    ASSERT_TRUE(header.ok()) << header.status().message();
    EXPECT_EQ(header->max_context, 512);
    (*log)->begin(*header);
    EngineRequest request;
    request.prompt = {0, 300, 301, 302, 303};
    request.params.max_tokens = 9;
    request.params.logprobs = 2;
    request.params.seed = 4;
    request.prompt_logprobs = 1;
    const auto first = run.submit(request);
    request.params.max_tokens = 0;
    request.grammar.emplace().text = "no schema";
    const auto second = run.submit(request);
    request.params.top_k = -1;
    EXPECT_FALSE(run.submit(request).ok());  // not accepted: not in the log
    run.drain();
    sampled = run.seen(*first);
    failed = run.seen(*second);
  }
  ASSERT_TRUE((*log)->close().ok());
  const auto read = read_request_log(file);
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->requests.size(), 2U);
  ASSERT_TRUE(read->requests[0].answer && read->requests[1].answer);
  const LoggedAnswer& answer = *read->requests[0].answer;
  EXPECT_EQ(answer.reason, sampled.ends[0].reason);
  ASSERT_EQ(answer.tokens.size(), sampled.tokens.size());
  for (size_t i = 0; i < answer.tokens.size(); ++i) {
    EXPECT_EQ(answer.tokens[i].token, sampled.tokens[i].token);
    EXPECT_EQ(answer.tokens[i].logprob, sampled.tokens[i].logprob);
    EXPECT_EQ(answer.tokens[i].top_logprobs.size(), 2U);
  }
  EXPECT_EQ(answer.prompt_logprobs.size(), 4U);
  EXPECT_EQ(read->requests[1].request.params.max_tokens, 507);
  EXPECT_EQ(read->requests[1].answer->reason, EndReason::kError);
  EXPECT_EQ(read->requests[1].answer->failure, failed.ends[0].failure.message());

  EXPECT_EQ(RequestLog::create(file).status().code(), StatusCode::kInvalidArgument);  // never overwritten
  EXPECT_EQ(RequestLog::create(folder / "no/log").status().code(), StatusCode::kIoError);
}

}  // namespace
}  // namespace deepinfer
