// The JSON Schema test suite through the grammar: each schema is compiled or refused by name, each instance is walked
// through the matcher in every order of its keys.  tests/data/grammar/suite_outcomes.tsv holds what is expected; no
// outcome may get worse, and an invalid instance is never accepted.
//
// With --gtest_also_run_disabled_tests the test WriteOutcomes writes the file anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "byte_vocabulary.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// From best to worst.
enum Outcome { kPass, kNamed, kFalseReject, kCrash, kFalseAccept };
const char* const kNames[] = {"pass", "unsupported, named", "false reject", "crash or hang", "false accept"};

// All texts of a value that differ in the order of keys, as long as there are not too many.
std::vector<std::string> spellings(const Json& value) {
  constexpr size_t kMost = 1500;
  if (value.is_object()) {
    std::vector<std::string> keys;
    for (const auto& [key, member] : value.items()) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    std::vector<std::string> texts;
    do {
      std::vector<std::string> partial{"{"};
      for (size_t i = 0; i < keys.size(); ++i) {
        std::vector<std::string> longer;
        for (const std::string& head : partial)
          for (const std::string& member : spellings(value[keys[i]]))
            if (longer.size() < kMost)
              longer.push_back(head + (i > 0 ? "," : "") + Json(keys[i]).dump() + ":" + member);
        partial = std::move(longer);
      }
      for (const std::string& text : partial)
        if (texts.size() < kMost) texts.push_back(text + "}");
    } while (texts.size() < kMost && std::next_permutation(keys.begin(), keys.end()));
    return texts;
  }
  if (value.is_array()) {
    std::vector<std::string> partial{"["};
    for (size_t i = 0; i < value.size(); ++i) {
      std::vector<std::string> longer;
      for (const std::string& head : partial)
        for (const std::string& member : spellings(value[i]))
          if (longer.size() < kMost) longer.push_back(head + (i > 0 ? "," : "") + member);
      partial = std::move(longer);
    }
    for (std::string& text : partial) text += "]";
    return partial;
  }
  // Integers have no point in the grammar: 1.0 is written as 1.
  if (value.is_number_float() &&
      value.get<double>() == static_cast<double>(static_cast<int64_t>(value.get<double>())) &&
      std::abs(value.get<double>()) < 1e15)
    return {value.dump(), std::to_string(static_cast<int64_t>(value.get<double>()))};
  return {value.dump()};
}

// [suite, file, schema, instance] -> outcome
std::map<std::string, Outcome> run_suite(const std::string& name, const fs::path& folder) {
  GrammarCompilerOptions options;
  options.threads = 1;
  auto compiler = GrammarCompiler::create(byte_vocabulary(), options).value();
  std::map<std::string, Outcome> outcomes;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::ifstream in(file);
    const Json groups = Json::parse(in);
    for (size_t g = 0; g < groups.size(); ++g) {
      const GrammarSpec spec = spec_of(GrammarSpec::Kind::kJsonSchema, groups[g]["schema"].dump(), false);
      const Result<SharedGrammar> grammar = compiler->compile(spec).wait();
      const bool nothing_matches =
          !grammar.ok() && grammar.status().message().find("no text at all can match") != std::string::npos;
      for (size_t t = 0; t < groups[g]["tests"].size(); ++t) {
        const Json& test = groups[g]["tests"][t];
        const bool valid = test["valid"].get<bool>();
        Outcome outcome = kNamed;
        if (grammar.ok() || nothing_matches) {
          bool taken = false;
          if (grammar.ok()) {
            const std::vector<std::string> texts = spellings(test["data"]);
            taken = std::any_of(texts.begin(), texts.end(),
                                [&](const std::string& text) { return takes(grammar.value(), spec, text); });
          }
          outcome = taken == valid ? kPass : valid ? kFalseReject : kFalseAccept;
        } else if (grammar.status().code() != StatusCode::kUnsupported &&
                   grammar.status().code() != StatusCode::kInvalidArgument) {
          outcome = kCrash;
        }
        outcomes[name + "\t" + file.stem().string() + "\t" + std::to_string(g) + "\t" + std::to_string(t)] = outcome;
      }
    }
  }
  return outcomes;
}

std::map<std::string, Outcome> run_all() {
  std::map<std::string, Outcome> all;
  const std::pair<const char*, fs::path> suites[] = {
      {"draft7", "/usr/share/json-schema-test-suite/tests/draft7"},
      {"draft7-format", "/usr/share/json-schema-test-suite/tests/draft7/optional/format"},
      {"draft2020-12", DEEPINFER_SCHEMA_SUITE},
      {"draft2020-12-format", std::string(DEEPINFER_SCHEMA_SUITE) + "/optional/format"},
  };
  for (const auto& [name, folder] : suites)
    if (fs::exists(folder)) all.merge(run_suite(name, folder));
  return all;
}

const fs::path kExpected = fs::path(DEEPINFER_TEST_DATA) / "grammar" / "suite_outcomes.tsv";

TEST(JsonSchemaSuite, NoOutcomeGetsWorse) {
  const std::map<std::string, Outcome> outcomes = run_all();
  if (outcomes.empty()) GTEST_SKIP() << "the suite is not installed";
  // The file has runs of equal outcomes: suite, file, schema, instance, outcome.
  std::map<std::string, Outcome> expected;
  std::ifstream in(kExpected);
  for (std::string line; std::getline(in, line);) {
    const size_t tab = line.rfind('\t');
    if (tab == std::string::npos) continue;
    for (int outcome = kPass; outcome <= kFalseAccept; ++outcome)
      if (line.substr(tab + 1) == kNames[outcome]) expected[line.substr(0, tab)] = static_cast<Outcome>(outcome);
  }
  ASSERT_FALSE(expected.empty()) << kExpected;
  std::map<std::string, int> counts;
  for (const auto& [test, outcome] : outcomes) {
    ++counts[test.substr(0, test.find('\t')) + ": " + kNames[outcome]];
    EXPECT_NE(outcome, kFalseAccept) << test;
    const auto known = expected.find(test);
    if (known != expected.end()) {
      EXPECT_LE(outcome, known->second) << test << ": was " << kNames[known->second] << ", is " << kNames[outcome];
    }
  }
  for (const auto& [what, count] : counts) std::printf("%s %d\n", what.c_str(), count);
}

TEST(JsonSchemaSuite, DISABLED_WriteOutcomes) {
  std::ofstream out(kExpected);
  for (const auto& [test, outcome] : run_all()) out << test << "\t" << kNames[outcome] << "\n";
}

}  // namespace
}  // namespace deepinfer
