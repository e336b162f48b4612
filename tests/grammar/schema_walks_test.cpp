// Random walks through the masks of real schemas end in valid values, and no changed value that the grammar takes is
// invalid: another validator judges.  Schemas: those of configuration files inside a package
// (third_party/real_schemas), whole and definition by definition, and the tool schemas.
// tests/data/grammar/real_schema_outcomes.tsv says which of the former are compiled; what is compiled once must stay
// so.
//
// With --gtest_also_run_disabled_tests the test WriteOutcomes writes the file anew, and WriteSchemas what is compiled
// as real_schemas.jsonl, for bench/grammar_speed.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>

#include "byte_vocabulary.h"
#include "schema_oracle.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

#ifdef DEEPINFER_SANITIZED_BUILD  // many times slower
constexpr size_t kStride = 10;
#else
constexpr size_t kStride = 1;
#endif

struct Case {
  std::string name;
  Json schema;
};

// The definitions that `from` names, and those that they name.
void add_definitions(const Json& whole, const std::string& kind, const Json& from, Json& part) {
  std::vector<const Json*> due{&from};
  part[kind] = Json::object();
  const std::string name = part["$ref"].get<std::string>().substr(kind.size() + 3);
  part[kind][name] = whole[kind][name];
  while (!due.empty()) {
    const Json& at = *due.back();
    due.pop_back();
    if (at.is_structured())
      for (const Json& member : at) due.push_back(&member);
    if (!at.is_object() || !at.contains("$ref") || !at["$ref"].is_string()) continue;
    const std::string place = at["$ref"].get<std::string>();
    for (const std::string in : {"definitions", "$defs"}) {
      if (place.rfind("#/", 0) != 0 || place.compare(2, in.size(), in) != 0 || place[in.size() + 2] != '/') continue;
      const std::string other = place.substr(in.size() + 3, place.find('/', in.size() + 3) - in.size() - 3);
      if (!whole.contains(in) || !whole[in].contains(other) || (part.contains(in) && part[in].contains(other)))
        continue;
      part[in][other] = whole[in][other];
      due.push_back(&whole[in][other]);
    }
  }
}

std::vector<Case> real_schemas() {
  std::vector<Case> cases;
  std::vector<fs::path> files;
  if (fs::exists(DEEPINFER_REAL_SCHEMAS))
    for (const auto& entry : fs::directory_iterator(DEEPINFER_REAL_SCHEMAS))
      if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) {
    std::ifstream in(path);
    const Json whole = Json::parse(in);
    cases.push_back({path.stem().string(), whole});
    for (const char* kind : {"definitions", "$defs"}) {
      if (!whole.contains(kind)) continue;
      for (const auto& [name, definition] : whole[kind].items()) {
        if (name.find_first_of("/~%") != std::string::npos) continue;
        std::string place("#/");
        place.append(kind).append("/").append(name);
        Json part{{"$ref", place}};
        add_definitions(whole, kind, definition, part);
        std::string title = path.stem().string();
        title.append("#").append(name);
        cases.push_back({std::move(title), std::move(part)});
      }
    }
  }
  return cases;
}

std::vector<Case> tool_schemas() {
  std::vector<Case> cases;
  std::ifstream in(std::string(DEEPINFER_TEST_DATA) + "/grammar/tool_schemas.jsonl");
  for (std::string line; std::getline(in, line);)
    cases.push_back({std::to_string(cases.size()), Json::parse(line)["schema"]});
  return cases;
}

// One text that the masks lead to; none when it does not end in time.  ASCII without escapes, as far as there is a
// choice: the oracle's expressions see bytes.
std::optional<std::string> walk(const SharedGrammar& grammar, const GrammarSpec& spec, std::mt19937& random) {
  GrammarMatcher matcher = GrammarMatcher::create(grammar, spec, std::span(&kByteStop, 1)).value();
  std::vector<uint32_t> mask(matcher.mask_words());
  std::string text;
  while (text.size() < 600) {
    EXPECT_TRUE(matcher.fill_mask(mask).ok()) << text;
    std::vector<int32_t> plain, ending, others;
    for (int32_t token = 0; token <= kByteStop; ++token) {
      if ((mask[static_cast<size_t>(token / 32)] >> (token % 32) & 1) == 0) continue;
      if (token == kByteStop || token == '"' || token == ']' || token == '}') ending.push_back(token);
      (token > ' ' && token < 0x7F && token != '\\' ? plain : others).push_back(token);
    }
    // The oracle reads integers of 64 bits.
    if (text.size() > 12 && std::all_of(text.end() - 12, text.end(), [](char c) { return c >= '0' && c <= '9'; }))
      std::erase_if(plain, [](int32_t token) { return token >= '0' && token <= '9'; });
    const auto& from = !ending.empty() && random() % 3 == 0 ? ending : !plain.empty() ? plain : others;
    if (from.empty()) return {};
    const int32_t token = from[random() % from.size()];
    EXPECT_TRUE(matcher.accept(token)) << text;
    if (token == kByteStop) return text;
    text.push_back(static_cast<char>(token));
  }
  return {};
}

// A value that differs somewhere.
void change(Json& value, std::mt19937& random) {
  static const Json kOthers[] = {nullptr, true, 0, -7, 1.5, 1000000, "", "x", "0", Json::array(), Json::object()};
  if (value.is_structured() && !value.empty() && random() % 4 != 0) {
    auto member = value.begin();
    std::advance(member, static_cast<std::ptrdiff_t>(random() % value.size()));
    if (random() % 4 == 0) {
      value.erase(member);
    } else {
      change(*member, random);
    }
  } else if (value.is_object() && random() % 2 == 0) {
    value["unlisted"] = kOthers[random() % std::size(kOthers)];
  } else if (value.is_array() && random() % 2 == 0) {
    value.push_back(kOthers[random() % std::size(kOthers)]);
  } else {
    value = kOthers[random() % std::size(kOthers)];
  }
}

struct Counts {
  int compiled = 0, judged = 0, walks = 0, changed = 0, refused = 0;
};

void check_walks(GrammarCompiler& compiler, const Case& c, Counts& counts) {
  std::optional<SchemaOracle> oracle;
  // Values that it misjudges here: jsonschema 4.23 finds them valid.
  const bool misread = c.name.rfind("meltano", 0) == 0 || c.name == "buildkite#matrixAdjustments";
  try {
    if (misread) throw std::runtime_error(c.name);
    oracle.emplace(nlohmann::json::parse(c.schema.dump()));
  } catch (const std::exception&) {  // what it cannot read it cannot judge
  }
  for (const bool strict : {true, false}) {
    const GrammarSpec spec = spec_of(GrammarSpec::Kind::kJsonSchema, c.schema.dump(), strict);
    const Result<SharedGrammar> grammar = compiler.compile(spec).wait();
    if (!grammar.ok()) continue;
    ++counts.compiled;
    std::mt19937 random(static_cast<uint32_t>(c.name.size()));
    for (int i = 0; i < 3; ++i) {
      const std::optional<std::string> text = walk(grammar.value(), spec, random);
      if (!text) continue;
      Json value;
      try {
        value = Json::parse(*text);
      } catch (const Json::out_of_range&) {  // JSON has numbers of any size
        continue;
      }
      if (!oracle) continue;
      ++counts.walks;
      EXPECT_TRUE(oracle->valid(nlohmann::json::parse(*text))) << c.name << ": " << *text;
      for (int changes = 0; changes < 6; ++changes) {
        Json other = value;
        change(other, random);
        const bool valid = oracle->valid(nlohmann::json::parse(other.dump()));
        ++counts.changed;
        if (valid) continue;
        ++counts.refused;
        EXPECT_FALSE(takes(grammar.value(), spec, other.dump())) << c.name << ": " << other.dump();
      }
    }
  }
  if (oracle) ++counts.judged;
}

std::map<std::string, bool> known_outcomes() {
  std::map<std::string, bool> compiled;
  std::ifstream in(std::string(DEEPINFER_TEST_DATA) + "/grammar/real_schema_outcomes.tsv");
  for (std::string line; std::getline(in, line);)
    compiled[line.substr(0, line.find('\t'))] = line.find("\tcompiled") != std::string::npos;
  return compiled;
}

Result<SharedGrammar> compiled(GrammarCompiler& compiler, const Case& c) {
  return compiler.compile(spec_of(GrammarSpec::Kind::kJsonSchema, c.schema.dump(), false)).wait();
}

TEST(RealSchemas, WhatIsCompiledStaysSoAndAllElseIsNamed) {
  auto compiler = GrammarCompiler::create(byte_vocabulary()).value();
  const std::map<std::string, bool> known = known_outcomes();
  const std::vector<Case> cases = real_schemas();
  if (cases.empty()) GTEST_SKIP() << "the source distribution is not there (./setup.sh packages)";
  EXPECT_GE(cases.size(), 300U);
  for (size_t i = 0; i < cases.size(); i += kStride) {
    const Case& c = cases[i];
    const Result<SharedGrammar> grammar = compiled(*compiler, c);
    const auto expected = known.find(c.name);
    ASSERT_NE(expected, known.end()) << c.name;
    if (expected->second) {
      EXPECT_TRUE(grammar.ok()) << c.name << ": " << grammar.status().to_string();
    } else if (!grammar.ok()) {
      EXPECT_GT(grammar.status().message().size(), 10U) << c.name;
    }
  }
}

TEST(RealSchemas, WalksAreValidAndChangesAreSeen) {
  auto compiler = GrammarCompiler::create(byte_vocabulary()).value();
  Counts counts;
  const std::vector<Case> cases = real_schemas();
  if (cases.empty()) GTEST_SKIP() << "the source distribution is not there (./setup.sh packages)";
  const std::map<std::string, bool> known = known_outcomes();
  for (size_t i = 0; i < cases.size(); i += kStride) {
    const Case& c = cases[i];
    const auto expected = known.find(c.name);
    if (expected != known.end() && expected->second) check_walks(*compiler, c, counts);
    if (HasFatalFailure()) return;
  }
  std::printf("compiled %d, judged %d, walks %d, changed values %d, of them invalid %d\n", counts.compiled,
              counts.judged, counts.walks, counts.changed, counts.refused);
  EXPECT_GE(counts.walks, 2000 / static_cast<int>(kStride) / 2);
  EXPECT_GE(counts.refused, 8000 / static_cast<int>(kStride) / 2);
}

TEST(ToolSchemaWalks, AreValidAndChangesAreSeen) {
  auto compiler = GrammarCompiler::create(byte_vocabulary()).value();
  Counts counts;
  const std::vector<Case> cases = tool_schemas();
  for (size_t i = 0; i < cases.size(); i += kStride) check_walks(*compiler, cases[i], counts);
  std::printf("compiled %d, judged %d, walks %d, changed values %d, of them invalid %d\n", counts.compiled,
              counts.judged, counts.walks, counts.changed, counts.refused);
  EXPECT_EQ(counts.compiled, 720 / static_cast<int>(kStride));
  EXPECT_GE(counts.walks, 1400 / static_cast<int>(kStride) / 2);
  EXPECT_GE(counts.refused, 7000 / static_cast<int>(kStride) / 2);
}

TEST(RealSchemas, DISABLED_WriteOutcomes) {
  auto compiler = GrammarCompiler::create(byte_vocabulary()).value();
  std::ofstream out(std::string(DEEPINFER_TEST_DATA) + "/grammar/real_schema_outcomes.tsv");
  for (const Case& c : real_schemas()) {
    const Result<SharedGrammar> grammar = compiled(*compiler, c);
    std::string message = grammar.ok() ? "" : grammar.status().message();
    std::replace(message.begin(), message.end(), '\n', ' ');
    std::replace(message.begin(), message.end(), '\t', ' ');
    out << c.name << '\t' << (grammar.ok() ? "compiled" : "refused") << '\t' << message.substr(0, 200) << '\n';
  }
}

TEST(RealSchemas, DISABLED_WriteSchemas) {
  std::ofstream out("real_schemas.jsonl");
  const std::map<std::string, bool> known = known_outcomes();
  for (const Case& c : real_schemas())
    if (known.at(c.name)) out << Json{{"name", c.name}, {"strict", false}, {"schema", c.schema}}.dump() << '\n';
}

}  // namespace
}  // namespace deepinfer
