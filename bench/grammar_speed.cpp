// Time of grammar compilation and of token masks.
//   grammar_speed TOKENIZER_JSON TOOL_SCHEMAS_JSONL [ANSWERS [THREADS [FORWARD_US]]]
// The schemas are those of tests/data/grammar/tool_schemas.jsonl, or lines {"name", "schema", "strict"} of others.
// Masks: 16 requests with a schema each at a time, each step 6 rows a request (5 drafts, taken from the valid
// arguments) and 3 tokens accepted; then ANSWERS (3) more for the same schemas.  THREADS (1): side threads, as the
// engine has them.  FORWARD_US (0): what a step does beside them.  One JSON object a line.
#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "engine/side_threads.h"
#include "grammar/grammar_compiler.h"
#include "grammar/grammar_matcher.h"
#include "text/tokenizer.h"

namespace {

using namespace deepinfer;
using Json = nlohmann::ordered_json;

double microseconds(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - from).count();
}

// What this thread has worked, whoever else had the core meanwhile.
double thread_microseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

void print(const char* name, std::vector<double> values, const char* unit) {
  if (values.empty()) return;
  std::sort(values.begin(), values.end());
  const auto at = [&](double part) {
    return values[std::min(values.size() - 1, static_cast<size_t>(part * static_cast<double>(values.size())))];
  };
  std::printf("{\"name\":\"%s\",\"count\":%zu,\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"max\":%.1f,\"unit\":\"%s\"}\n",
              name, values.size(), at(0.5), at(0.9), at(0.99), values.back(), unit);
  std::fflush(stdout);
}

struct Request {
  GrammarSpec spec;
  SharedGrammar grammar;
  std::vector<std::vector<int32_t>> answers;
};

struct Times {
  std::vector<double> rows, accepts, steps, exposed;
};

constexpr size_t kRequests = 16;
constexpr size_t kDrafts = 5;
constexpr size_t kAccepted = 3;  // tokens a step

// One answer of each of 16 requests.  exposed: how much longer a step takes than the `forward` microseconds that its
// owner is busy while side threads make the masks.
bool run(std::span<const Request> requests, size_t answer, int32_t end, SideThreads& side, double forward,
         Times& times) {
  std::vector<GrammarMatcher> matchers;
  std::vector<const std::vector<int32_t>*> texts;
  for (const Request& request : requests) {
    matchers.push_back(GrammarMatcher::create(request.grammar, request.spec, std::span(&end, 1)).value());
    texts.push_back(&request.answers[answer % request.answers.size()]);
  }
  const size_t words = matchers[0].mask_words();
  std::vector<uint32_t> masks(words * (kDrafts + 1) * kRequests);
  std::vector<size_t> at(kRequests, 0);
  std::vector<double> took(kRequests);
  for (;;) {
    std::vector<size_t> members;
    for (size_t r = 0; r < kRequests; ++r)
      if (at[r] < texts[r]->size()) members.push_back(r);
    if (members.empty()) return true;
    std::atomic<bool> failed{false};
    const auto fill = [&](size_t member) {
      const size_t r = members[member];
      const double start = thread_microseconds();
      const auto drafts = std::span(*texts[r]).subspan(at[r], std::min(kDrafts, texts[r]->size() - at[r]));
      const auto rows = std::span(masks).subspan(r * words * (kDrafts + 1), words * (drafts.size() + 1));
      if (!matchers[r].masks_along(drafts, rows).ok()) failed = true;
      took[r] = thread_microseconds() - start;
    };
    const auto start = std::chrono::steady_clock::now();
    side.start(members.size(), fill);
    while (microseconds(start) < forward) {
    }
    const double waited = microseconds(start);
    side.wait();
    if (members.size() == kRequests) times.exposed.push_back(microseconds(start) - waited);
    if (failed) return false;
    double all = 0;
    for (const size_t r : members) {
      all += took[r];
      times.rows.push_back(took[r] / static_cast<double>(std::min(kDrafts, texts[r]->size() - at[r]) + 1));
      for (size_t i = 0; i < kAccepted && at[r] < texts[r]->size(); ++i) {
        const double accepting = thread_microseconds();
        if (!matchers[r].accept((*texts[r])[at[r]++])) return false;
        times.accepts.push_back(thread_microseconds() - accepting);
      }
    }
    if (members.size() == kRequests) times.steps.push_back(all);
  }
}

void print(const std::string& which, const Times& times) {
  print(("mask of one row, " + which).c_str(), times.rows, "us");
  print(("accept, " + which).c_str(), times.accepts, "us");
  print(("masks of a step, 16 requests x 6 rows, " + which).c_str(), times.steps, "us");
  print(("a step waits for its masks, " + which).c_str(), times.exposed, "us");
}

// Masks and random tokens from the start of an answer that begins as soon as its grammar is ready, while threads of the
// compiler make what is missing.
bool walk(const Request& request, int32_t end, std::mt19937& random, std::vector<double>& rows) {
  GrammarMatcher matcher = GrammarMatcher::create(request.grammar, request.spec, std::span(&end, 1)).value();
  std::vector<uint32_t> mask(matcher.mask_words());
  for (int i = 0; i < 60; ++i) {
    const double start = thread_microseconds();
    if (!matcher.fill_mask(mask).ok()) return false;
    rows.push_back(thread_microseconds() - start);
    std::vector<int32_t> allowed;
    for (size_t word = 0; word < mask.size(); ++word)
      for (uint32_t bits = mask[word]; bits != 0; bits &= bits - 1)
        allowed.push_back(static_cast<int32_t>(word * 32) + std::countr_zero(bits));
    const int32_t token = allowed[random() % allowed.size()];
    if (token == end) break;
    if (!matcher.accept(token)) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s TOKENIZER_JSON TOOL_SCHEMAS_JSONL [ANSWERS [THREADS [FORWARD_US]]]\n", argv[0]);
    return 2;
  }
  const int repeat = argc > 3 ? std::max(1, std::atoi(argv[3])) : 3;
  const int threads = argc > 4 ? std::clamp(std::atoi(argv[4]), 1, 64) : 1;
  const double forward = argc > 5 ? std::atof(argv[5]) : 0;
  const auto loaded = Tokenizer::load(argv[1]);
  if (!loaded.ok()) {
    std::fprintf(stderr, "%s\n", loaded.status().to_string().c_str());
    return 1;
  }
  const Tokenizer& tokenizer = *loaded.value();
  GrammarVocabulary vocabulary;
  for (int32_t id = 0; id < tokenizer.vocabulary(); ++id)
    vocabulary.tokens.emplace_back(tokenizer.is_added(id) ? std::string_view() : tokenizer.bytes(id));
  const auto end = tokenizer.added_id("<｜end▁of▁sentence｜>");
  if (!end) return 1;
  auto start = std::chrono::steady_clock::now();
  GrammarCompilerOptions options;
  options.threads = 1;
  options.cache_bytes = int64_t{8} << 30;
  auto compiler = GrammarCompiler::create(std::move(vocabulary), options).value();
  std::printf("{\"name\":\"vocabulary\",\"tokens\":%d,\"value\":%.1f,\"unit\":\"ms\"}\n", tokenizer.vocabulary(),
              microseconds(start) / 1000);

  std::vector<double> compile, translate, at_once, megabytes;
  std::mt19937 random(1);
  std::vector<std::pair<double, std::string>> slowest;
  std::vector<Request> requests;
  std::ifstream in(argv[2]);
  for (std::string line; std::getline(in, line);) {
    const Json example = Json::parse(line);
    Request request;
    request.spec.text = example["schema"].dump();
    request.spec.strict = example.value("strict", true);
    start = std::chrono::steady_clock::now();
    if (!grammar_text(request.spec).ok()) continue;  // refused by name
    translate.push_back(microseconds(start) / 1000);
    start = std::chrono::steady_clock::now();
    Result<SharedGrammar> grammar = compiler->compile(request.spec).wait();
    compile.push_back(microseconds(start) / 1000);
    slowest.emplace_back(compile.back(), example.value("name", std::to_string(slowest.size() + 1)));
    if (!grammar.ok()) continue;
    request.grammar = std::move(grammar).value();
    if (!walk(request, *end, random, at_once)) {
      std::fprintf(stderr, "a mask failed, or a token that it allows was refused\n");
      return 1;
    }
    megabytes.push_back(static_cast<double>(request.grammar->bytes()) / 1e6);
    for (const Json& value : example.value("valid", Json::array())) {
      std::vector<int32_t> tokens;
      if (tokenizer.encode_plain(value.dump(), tokens).ok() && tokens.size() >= 12) request.answers.push_back(tokens);
    }
    if (request.answers.size() >= 2) requests.push_back(std::move(request));
  }
  print("translate", translate, "ms");
  print("compile, translation included", compile, "ms");
  print("mask of one row, 60 random tokens from the moment that a grammar is ready", at_once, "us");
  print("grammar", megabytes, "MB");
  std::sort(slowest.rbegin(), slowest.rend());
  for (size_t i = 0; i < std::min<size_t>(10, slowest.size()); ++i)
    std::printf("{\"name\":\"slow schema\",\"schema\":\"%s\",\"value\":%.1f,\"unit\":\"ms\"}\n",
                slowest[i].second.c_str(), slowest[i].first);

  SideThreads side(threads);
  Times first, later;
  for (size_t group = 0; group + kRequests <= requests.size(); group += kRequests) {
    const auto members = std::span<const Request>(requests).subspan(group, kRequests);
    for (int round = 0; round <= repeat; ++round) {
      if (!run(members, static_cast<size_t>(round), *end, side, forward, round == 0 ? first : later)) {
        std::fprintf(stderr, "an answer does not fit its grammar\n");
        return 1;
      }
    }
  }
  print("first answer of a schema", first);
  print("later answers", later);
  return 0;
}
