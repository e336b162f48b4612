// GrammarCompiler: cache, sharing, budgets, cancellation, masks that are made afterwards; so_args.
#include <gtest/gtest.h>

#include <thread>

#include "byte_vocabulary.h"
#include "grammar/grammar_compiler.h"

namespace deepinfer {
namespace {

using Kind = GrammarSpec::Kind;

// A grammar that takes a second or more: thousands of states, each with a mask over the vocabulary.
std::string slow_expression(int variant) {
  std::string text(static_cast<size_t>(variant), 'x');
  for (int i = 1; i <= 32; ++i) text.append("(.{1,32}|[^a]{1,").append(std::to_string(i)).append("})");
  return text;
}

TEST(GrammarCompilerTest, EqualGrammarsAreCompiledOnce) {
  auto compiler = GrammarCompiler::create(byte_vocabulary()).value();
  GrammarSpec spec = spec_of(Kind::kRegex, "a+b");
  const SharedGrammar first = compiler->compile(spec).wait().value();
  spec.trigger_token_ids = {1};  // not part of the grammar
  EXPECT_EQ(compiler->compile(spec).wait().value(), first);
  EXPECT_EQ(compiler->cache_stats().hits, 1);
  spec.text = "a+c";
  EXPECT_NE(compiler->compile(spec).wait().value(), first);
  EXPECT_EQ(compiler->cache_stats().grammars, 2);
}

TEST(GrammarCompilerTest, TheCacheIsBoundedByBytes) {
  GrammarCompilerOptions options;
  options.cache_bytes = 64 * 1024;
  auto compiler = GrammarCompiler::create(byte_vocabulary(), options).value();
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(compiler->compile(spec_of(Kind::kRegex, "[a-f]{" + std::to_string(i + 1) + "}")).wait().ok());
    EXPECT_LE(compiler->cache_stats().bytes, options.cache_bytes);
  }
  EXPECT_GT(compiler->cache_stats().grammars, 0);
  EXPECT_LT(compiler->cache_stats().grammars, 60);
}

// A schema whose translation alone takes a second or more: many expressions run on many values.
std::string slow_schema() {
  std::string text = R"({"pattern":"^(a{1,9}|b)*c$","enum":["x")";
  for (int i = 0; i < 6000; ++i) text.append(",\"").append(30, 'a').append(std::to_string(i)).append("\"");
  return text + "]}";
}

TEST(GrammarCompilerTest, TimeAndMemoryAreBounded) {
  GrammarCompilerOptions options;
  options.limits.time = std::chrono::milliseconds(50);
  auto compiler = GrammarCompiler::create(tiny_vocabulary(), options).value();
  const Status late = compiler->compile(spec_of(Kind::kJsonSchema, slow_schema())).wait().status();
  EXPECT_EQ(late.code(), StatusCode::kResourceExhausted) << late.to_string();
  options.limits.time = std::chrono::milliseconds(20'000);
  options.limits.bytes = 1 << 16;
  auto small = GrammarCompiler::create(tiny_vocabulary(), options).value();
  const Status large = small->compile(spec_of(Kind::kRegex, slow_expression(2))).wait().status();
  EXPECT_EQ(large.code(), StatusCode::kResourceExhausted) << large.to_string();
}

// Masks along a text, whenever they were made.
std::vector<uint32_t> masks_of(const SharedGrammar& grammar, const GrammarSpec& spec, std::string_view text) {
  GrammarMatcher matcher = GrammarMatcher::create(grammar, spec, std::span(&kTinyStop, 1)).value();
  std::vector<int32_t> tokens;
  EXPECT_TRUE(tiny_tokenizer().encode_plain(text, tokens).ok());
  std::vector<uint32_t> all(matcher.mask_words() * (tokens.size() + 1));
  EXPECT_EQ(matcher.masks_along(tokens, all).value(), static_cast<int>(tokens.size()) + 1) << text;
  return all;
}

TEST(GrammarCompilerTest, WhenMasksAreMadeDoesNotShow) {
  const GrammarSpec spec =
      spec_of(Kind::kJsonSchema,
              R"({"type":"object","properties":{"name":{"type":"string","maxLength":20},"tags":{"type":"array","items":
                 {"enum":["red","green"]}},"n":{"type":"integer","minimum":-3,"maximum":70000}},"required":["name"]})");
  const std::string_view text = R"({"name": "some \"one\"", "tags": ["red", "green"], "n": 65536})";
  GrammarCompilerOptions options;
  options.mask_bytes = 0;
  options.first_masks = std::chrono::milliseconds(60'000);
  auto before = GrammarCompiler::create(tiny_vocabulary(), options).value();
  const std::vector<uint32_t> want = masks_of(before->compile(spec).wait().value(), spec, text);
  options.first_masks = std::chrono::milliseconds(0);
  auto after = GrammarCompiler::create(tiny_vocabulary(), options).value();
  const SharedGrammar grammar = after->compile(spec).wait().value();
  // Several answers and the compiler's own threads come to the same states.
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&] { EXPECT_EQ(masks_of(grammar, spec, text), want); });
  for (std::thread& thread : threads) thread.join();
}

TEST(GrammarCompilerTest, MasksMadeAfterwardsCount) {
  GrammarCompilerOptions options;
  options.first_masks = std::chrono::milliseconds(0);
  auto compiler = GrammarCompiler::create(tiny_vocabulary(), options).value();
  const GrammarSpec spec = spec_of(Kind::kRegex, "([a-z]{1,30}|[^0-9]{1,20})x");
  const SharedGrammar grammar = compiler->compile(spec).wait().value();
  // While it is used its masks come, and the store counts them.
  const int64_t key = 1024;
  for (int i = 0; i < 4000 && compiler->cache_stats().bytes + key < grammar->bytes(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  int64_t bytes = 0;
  // A mask takes milliseconds, on a busy machine many: nothing more comes where nothing came for two seconds.
  for (int quiet = 0; quiet < 20; quiet = bytes == grammar->bytes() ? quiet + 1 : 0) {
    bytes = grammar->bytes();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  masks_of(grammar, spec, "abcx");
  EXPECT_EQ(grammar->bytes(), bytes) << "all masks were there";
}

TEST(GrammarCompilerTest, NobodyWaitsAnyMore) {
  GrammarCompilerOptions options;
  options.threads = 1;
  auto compiler = GrammarCompiler::create(tiny_vocabulary(), options).value();
  for (int i = 0; i < 40; ++i) (void)compiler->compile(spec_of(Kind::kRegex, slow_expression(i)));  // dropped at once
  // The thread is soon free for this one.
  EXPECT_TRUE(compiler->compile(spec_of(Kind::kRegex, "abc")).wait().ok());
}

TEST(GrammarCompilerTest, TheQueueIsBounded) {
  GrammarCompilerOptions options;
  options.threads = 1;
  options.waiting = 2;
  auto compiler = GrammarCompiler::create(tiny_vocabulary(), options).value();
  std::vector<GrammarTicket> tickets;
  for (int i = 0; i < 8; ++i) tickets.push_back(compiler->compile(spec_of(Kind::kRegex, slow_expression(i))));
  int refused = 0;
  for (const GrammarTicket& ticket : tickets)
    refused += ticket.ready() && ticket.result().status().code() == StatusCode::kResourceExhausted ? 1 : 0;
  EXPECT_GE(refused, 5);
}

TEST(GrammarCompilerTest, ThreadsShareOneCompiler) {
  auto compiler = GrammarCompiler::create(byte_vocabulary()).value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const GrammarSpec spec = spec_of(Kind::kRegex, "[ab]{" + std::to_string((i + t) % 5 + 1) + "}");
        const SharedGrammar grammar = compiler->compile(spec).wait().value();
        EXPECT_TRUE(takes(grammar, spec, std::string(static_cast<size_t>((i + t) % 5 + 1), 'a')));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(GrammarCompilerTest, ClosingEndsWhatIsDue) {
  GrammarTicket ticket;
  {
    GrammarCompilerOptions options;
    options.threads = 1;
    auto compiler = GrammarCompiler::create(tiny_vocabulary(), options).value();
    const GrammarTicket first = compiler->compile(spec_of(Kind::kRegex, slow_expression(1)));
    ticket = compiler->compile(spec_of(Kind::kRegex, slow_expression(2)));
  }
  EXPECT_EQ(ticket.wait().status().code(), StatusCode::kCancelled);
}

TEST(SoArgs, AsDeepInfer) {
  const GrammarSpec spec =
      parse_so_args(R"({"schema_type": "json", "schema": "{}", "trigger_token_ids": [7, 8], "bound_token_id": 9})")
          .value();
  EXPECT_EQ(spec.kind, Kind::kJsonSchema);
  EXPECT_TRUE(spec.strict);
  EXPECT_EQ(spec.trigger_token_ids, (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(spec.bound_token_id, 9);
  EXPECT_EQ(parse_so_args(R"({"schema_type": "ebnf", "schema": "root ::= \"a\""})").value().kind, Kind::kEbnf);
  const std::pair<const char*, const char*> kWrong[] = {
      {R"([])", "an object is expected"},
      {R"({"schema": "a"})", "schema_type is missing"},
      {R"({"schema_type": "json"})", "schema is missing"},
      {R"({"schema_type": "xml", "schema": "a"})", "json, regex or ebnf"},
      {R"({"schema_type": "json", "schema": {}})", "schema must be a string"},
      {R"({"schema_type": "json", "schema": "{}", "bound_token_id": 3})", "bound_token_id needs trigger_token_ids"},
      {R"({"schema_type": "json", "schema": "{}", "trigger_token_ids": [], "bound_token_id": 3})",
       "bound_token_id needs"},
      {R"({"schema_type": "json", "schema": "{}", "trigger_token_ids": [-1]})", "trigger_token_ids must be a token id"},
      {R"({"schema_type": "json", "schema": "{}", "trigger_token_ids": [1.5]})",
       "trigger_token_ids must be a token id"},
      {R"({"schema_type": "json", "schema": "{}", "trigger_token_ids": [true]})",
       "trigger_token_ids must be a token id"},
      {R"({"schema_type": "json", "schema": "{}", "trigger_token_ids": 7})", "a list of token ids"},
      {R"({"schema_type": "json", "schema": "{}", "bound_token_ids": [1]})", "bound_token_ids is not supported"},
      {R"({"schema_type": "json", "schema": "{}", "serialized": "x"})", "serialized is not supported"},
      {R"({"schema_type": "json", "schema": "{}", "strict": true})", "unknown key \"strict\""},
      {R"({"schema_type": "json", "schema": "{}", "schema": "{}"})", "stands twice"},
  };
  for (const auto& [text, part] : kWrong) {
    const Status status = parse_so_args(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find(part), std::string::npos) << text << ": " << status.message();
  }
}

}  // namespace
}  // namespace deepinfer
