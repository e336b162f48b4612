#include "serving/api/exposition_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include "text/utf8.h"

namespace deepinfer::serving {
namespace {

using Labels = std::map<std::string, std::string>;

struct Sample {
  std::string name;
  Labels labels;
  double value = 0;
};

std::optional<double> number(const std::string& text) {
  if (text == "+Inf") return std::numeric_limits<double>::infinity();
  static const std::regex kNumber(R"(-?[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?)");
  if (!std::regex_match(text, kNumber)) return std::nullopt;
  return std::strtod(text.c_str(), nullptr);
}

// NAME{label="value",...} VALUE
std::optional<Sample> read_sample(const std::string& line) {
  static const std::regex kName("[a-zA-Z_:][a-zA-Z0-9_:]*"), kLabel("[a-zA-Z_][a-zA-Z0-9_]*");
  Sample sample;
  const size_t end = line.find_first_of("{ ");
  if (end == std::string::npos) return std::nullopt;
  sample.name = line.substr(0, end);
  if (!std::regex_match(sample.name, kName)) return std::nullopt;
  size_t at = end;
  if (line[at] == '{') {
    do {
      const size_t equals = line.find("=\"", ++at);
      if (equals == std::string::npos) return std::nullopt;
      const std::string name = line.substr(at, equals - at);
      if (!std::regex_match(name, kLabel)) return std::nullopt;
      std::string value;
      for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
        if (line[at] == '\\') {
          if (++at == line.size() || (line[at] != '\\' && line[at] != '"' && line[at] != 'n')) return std::nullopt;
          value += line[at] == 'n' ? '\n' : line[at];
        } else {
          value += line[at];
        }
      }
      if (++at >= line.size() || !sample.labels.emplace(name, value).second) return std::nullopt;
    } while (line[at] == ',');
    if (line[at++] != '}') return std::nullopt;
  }
  if (at >= line.size() || line[at] != ' ') return std::nullopt;
  const auto value = number(line.substr(at + 1));
  if (!value) return std::nullopt;
  sample.value = *value;
  return sample;
}

// The samples of one histogram family: cumulative buckets up to +Inf, a sum and a count for each set of labels.
void check_histogram(const std::string& name, const std::vector<Sample>& samples) {
  struct Series {
    double bound = -std::numeric_limits<double>::infinity(), below = 0;
    std::optional<double> count, sum;
  };
  std::map<Labels, Series> all;
  for (const Sample& sample : samples) {
    Labels labels = sample.labels;
    if (sample.name == name + "_bucket") {
      ASSERT_TRUE(labels.contains("le")) << name;
      const auto bound = number(labels.at("le"));
      labels.erase("le");
      Series& series = all[labels];
      ASSERT_TRUE(bound && *bound > series.bound) << name << ": buckets ascend";
      ASSERT_GE(sample.value, series.below) << name << ": buckets are cumulative";
      series.bound = *bound;
      series.below = sample.value;
    } else if (sample.name == name + "_sum") {
      all[labels].sum = sample.value;
    } else {
      ASSERT_EQ(sample.name, name + "_count");
      all[labels].count = sample.value;
    }
  }
  for (const auto& [labels, series] : all) {
    EXPECT_TRUE(std::isinf(series.bound)) << name << ": the last bucket is +Inf";
    ASSERT_TRUE(series.count && series.sum) << name;
    EXPECT_EQ(*series.count, series.below) << name;
  }
}

}  // namespace

std::map<std::string, MetricFamily> checked_exposition(const std::string& text) {
  std::map<std::string, MetricFamily> families;
  std::map<std::string, std::vector<Sample>> samples;
  std::set<std::pair<std::string, Labels>> seen;
  EXPECT_TRUE(text.ends_with('\n'));
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_TRUE(is_valid_utf8(text));
  std::istringstream in(text);
  std::string family;
  bool typed = true;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("# HELP ")) {
      EXPECT_TRUE(typed) << family << " has no type";
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.emplace(family, MetricFamily{}).second) << family << " begins twice";
      families[family].help = line.substr(std::min(line.size(), 8 + family.size()));
      typed = false;
    } else if (line.starts_with("# TYPE ")) {
      EXPECT_EQ(line.substr(7, family.size() + 1), family + " ");
      EXPECT_FALSE(typed) << line;
      typed = true;
      const std::string type = families[family].type = line.substr(8 + family.size());
      EXPECT_TRUE(type == "counter" || type == "gauge" || type == "histogram") << line;
      EXPECT_EQ(type == "counter", family.ends_with("_total")) << line;
    } else {
      const auto sample = read_sample(line);
      if (!sample) {
        ADD_FAILURE() << line;
        continue;
      }
      const bool histogram = families[family].type == "histogram";
      const std::string suffix = sample->name.substr(std::min(sample->name.size(), family.size()));
      EXPECT_TRUE(typed && sample->name.starts_with(family)) << line << " in " << family;
      EXPECT_TRUE(histogram ? suffix == "_bucket" || suffix == "_sum" || suffix == "_count" : suffix.empty()) << line;
      EXPECT_TRUE(seen.emplace(sample->name, sample->labels).second) << line << " is there twice";
      if (families[family].type == "counter") {
        EXPECT_GE(sample->value, 0) << line;
      }
      ++families[family].samples;
      samples[family].push_back(*sample);
    }
  }
  EXPECT_TRUE(typed) << family;
  for (const auto& [name, entry] : families) {
    EXPECT_FALSE(entry.help.empty()) << name;
    if (entry.type == "histogram") check_histogram(name, samples[name]);
  }
  return families;
}

}  // namespace deepinfer::serving
