// GrammarCompiler: cache, sharing, budgets, cancellation; so_args.
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

TEST(GrammarCompilerTest, TimeAndMemoryAreBounded) {
  GrammarCompilerOptions options;
  options.limits.time = std::chrono::milliseconds(50);
  auto compiler = GrammarCompiler::create(tiny_vocabulary(), options).value();
  const Status late = compiler->compile(spec_of(Kind::kRegex, slow_expression(1))).wait().status();
  EXPECT_EQ(late.code(), StatusCode::kResourceExhausted) << late.to_string();
  options.limits.time = std::chrono::milliseconds(20'000);
  options.limits.bytes = 1 << 16;
  auto small = GrammarCompiler::create(tiny_vocabulary(), options).value();
  const Status large = small->compile(spec_of(Kind::kRegex, slow_expression(2))).wait().status();
  EXPECT_EQ(large.code(), StatusCode::kResourceExhausted) << large.to_string();
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
