// Time of grammar compilation and of token masks, one thread.
//   grammar_speed TOKENIZER_JSON TOOL_SCHEMAS_JSONL [--repeat N]
// The schemas are those of tests/data/grammar/tool_schemas.jsonl.  Masks: 16 requests at a time, each step 6 rows a
// request (5 drafts, taken from the valid arguments) and 3 tokens accepted.  One JSON object a line.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "grammar/grammar_compiler.h"
#include "grammar/grammar_matcher.h"
#include "text/tokenizer.h"

namespace {

using namespace deepinfer;
using Json = nlohmann::ordered_json;

double microseconds(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - from).count();
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
  std::vector<int32_t> tokens;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s TOKENIZER_JSON TOOL_SCHEMAS_JSONL [--repeat N]\n", argv[0]);
    return 2;
  }
  const int repeat = argc > 4 ? std::max(1, std::atoi(argv[4])) : 1;
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

  std::vector<double> compile, megabytes;
  std::vector<Request> requests;
  std::ifstream in(argv[2]);
  for (std::string line; std::getline(in, line);) {
    const Json example = Json::parse(line);
    Request request;
    request.spec.text = example["schema"].dump();
    start = std::chrono::steady_clock::now();
    Result<SharedGrammar> grammar = compiler->compile(request.spec).wait();
    compile.push_back(microseconds(start) / 1000);
    if (!grammar.ok()) {
      std::fprintf(stderr, "%s\n", grammar.status().to_string().c_str());
      return 1;
    }
    request.grammar = std::move(grammar).value();
    megabytes.push_back(static_cast<double>(request.grammar->bytes()) / 1e6);
    for (const Json& value : example["valid"]) {
      request.tokens.clear();
      if (!tokenizer.encode_plain(value.dump(), request.tokens).ok() || request.tokens.size() < 12) continue;
      requests.push_back(request);
      break;
    }
  }
  print("compile", compile, "ms");
  print("grammar", megabytes, "MB");

  std::vector<double> row_times, step_times, accept_times;
  for (int round = 0; round < repeat; ++round) {
    for (size_t first = 0; first + 16 <= requests.size(); first += 16) {
      std::vector<GrammarMatcher> matchers;
      std::vector<size_t> at(16, 0);
      for (size_t r = 0; r < 16; ++r)
        matchers.push_back(
            GrammarMatcher::create(requests[first + r].grammar, requests[first + r].spec, std::span(&*end, 1)).value());
      std::vector<uint32_t> masks(matchers[0].mask_words() * 6);
      for (int step = 0; step < 20; ++step) {
        double all = 0;
        for (size_t r = 0; r < 16; ++r) {
          const std::vector<int32_t>& tokens = requests[first + r].tokens;
          const size_t drafts = std::min<size_t>(5, tokens.size() - at[r]);
          if (drafts == 0) continue;
          start = std::chrono::steady_clock::now();
          const Result<int> rows =
              matchers[r].masks_along(std::span(tokens).subspan(at[r], drafts),
                                      std::span(masks).first(matchers[0].mask_words() * (drafts + 1)));
          const double time = microseconds(start);
          if (!rows.ok()) {
            std::fprintf(stderr, "%s\n", rows.status().to_string().c_str());
            return 1;
          }
          all += time;
          row_times.push_back(time / rows.value());
          for (size_t i = 0; i < 3 && at[r] < tokens.size(); ++i) {
            start = std::chrono::steady_clock::now();
            const bool taken = matchers[r].accept(tokens[at[r]]);
            accept_times.push_back(microseconds(start));
            at[r] = taken ? at[r] + 1 : tokens.size();
          }
        }
        if (all > 0) step_times.push_back(all);
      }
    }
  }
  print("mask of one row", row_times, "us");
  print("accept", accept_times, "us");
  print("masks of a step, 16 requests x 6 rows", step_times, "us");
  return 0;
}
