#include "engine/metrics/exposition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "text/utf8.h"

namespace deepinfer {
namespace {

bool is_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == ':';
  };
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::all_of(name.begin(), name.end(), fits);
}

// In HELP and in the values of labels; quotes are escaped in these only.
std::string escaped(std::string_view text, bool quotes) {
  std::string repaired, out;
  append_repaired_utf8(text, repaired);
  for (const char c : repaired) {
    if (c == '\\' || (quotes && c == '"')) out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

void append_labels(std::string& out, Exposition::Labels labels) {
  for (const auto& [name, value] : labels) {
    if (!out.empty()) out += ',';
    out.append(name).append("=\"").append(escaped(value, true)).append("\"");
  }
}

}  // namespace

Exposition::Exposition(Labels common) {
  append_labels(common_, common);
}

void Exposition::begin(std::string_view name, std::string_view type, std::string_view help) {
  DI_CHECK(is_name(name), name);
  DI_CHECK(name.ends_with("_total") == (type == "counter"), name);
  family_ = name;
  text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, escaped(help, false));
}

void Exposition::write(std::string_view suffix, std::string_view value, Labels labels) {
  std::string all = common_;
  append_labels(all, labels);
  text_.append(family_).append(suffix);
  if (!all.empty()) text_.append("{").append(all).append("}");
  text_.append(" ").append(value).append("\n");
}

void Exposition::sample(int64_t value, Labels labels) {
  write("", std::to_string(value), labels);
}

void Exposition::sample(double value, Labels labels) {
  write("", number(value), labels);
}

void Exposition::counter(std::string_view name, std::string_view help, int64_t value) {
  begin_counter(name, help);
  sample(value);
}

void Exposition::gauge(std::string_view name, std::string_view help, int64_t value) {
  begin_gauge(name, help);
  sample(value);
}

void Exposition::histogram(std::string_view name, std::string_view help, const Histogram& histogram) {
  begin(name, "histogram", help);
  int64_t below = 0;
  for (size_t i = 0; i < histogram.bounds().size(); ++i) {
    below += histogram.bucket(i);
    write("_bucket", std::to_string(below), {{"le", number(histogram.bounds()[i])}});
  }
  // The count is that of the buckets that were read, whatever was observed meanwhile.
  below += histogram.bucket(histogram.bounds().size());
  write("_bucket", std::to_string(below), {{"le", "+Inf"}});
  write("_sum", number(histogram.sum()), {});
  write("_count", std::to_string(below), {});
}

}  // namespace deepinfer
