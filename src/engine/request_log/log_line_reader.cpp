#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <type_traits>

#include "engine/request_log/log_line.h"
#include "engine/request_log/request_fields.h"
#include "text/json_text.h"

namespace deepinfer {
namespace {

// The exact float of a hexadecimal spelling ("-0x1.8p-2", "-inf").
std::optional<float> parse_hex_float(const std::string& text) {
  if (text == "-inf") return -std::numeric_limits<float>::infinity();
  if (text == "inf") return std::numeric_limits<float>::infinity();
  if (text.find("0x") == std::string::npos || text.find_first_not_of("-0123456789abcdefx.p+") != std::string::npos)
    return std::nullopt;
  char* end = nullptr;
  const float value = std::strtof(text.c_str(), &end);
  if (end != text.c_str() + text.size()) return std::nullopt;
  return value;
}

constexpr GrammarSpec::Kind last_of(GrammarSpec::Kind) {
  return GrammarSpec::Kind::kTags;
}
constexpr GrammarSpec::Content last_of(GrammarSpec::Content) {
  return GrammarSpec::Content::kRegex;
}
constexpr SpeculativeSampling last_of(SpeculativeSampling) {
  return SpeculativeSampling::kRejection;
}
constexpr PrefixReplay last_of(PrefixReplay) {
  return PrefixReplay::kBounded;
}
constexpr JsonWhitespace last_of(JsonWhitespace) {
  return JsonWhitespace::kNone;
}

// Fills values from one object; the first fault stays.
class ObjectReader {
 public:
  ObjectReader(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
    if (!object.is_object()) fail("is no object");
  }

  template <typename T>
  void field(const char* name, T& value) {
    if (!fault_.ok()) return;
    name_ = name;
    const auto found = object_.find(name);
    if (found == object_.end()) return fail("is missing");
    ++known_;
    read(*found, value);
  }
  Status finish() {
    if (fault_.ok() && known_ != object_.size()) {
      name_.clear();
      fail(fmt::format("has {} keys, {} of them known", object_.size(), known_));
    }
    return fault_;
  }

 private:
  void fail(std::string_view what) {
    if (!fault_.ok()) return;
    const std::string name = path_ + (path_.empty() || name_.empty() ? "" : ".") + name_;
    fault_ = corrupt_file(fmt::format("{} {}", name.empty() ? "the line" : name, what));
  }

  void read(const Json& json, bool& value) {
    if (!json.is_boolean()) return fail("is neither true nor false");
    value = json.get<bool>();
  }
  void read(const Json& json, float& value) {
    if (!json.is_number()) return fail("is no number");
    const double wide = json.get<double>();
    if (std::abs(wide) > static_cast<double>(std::numeric_limits<float>::max())) return fail("is out of range");
    value = static_cast<float>(wide);
  }
  void read(const Json& json, std::string& value) {
    if (json.is_string()) {
      value = json.get_ref<const std::string&>();
      return;
    }
    const auto hex = json.is_object() && json.size() == 1 ? json.find("hex") : json.end();
    if (hex == json.end() || !hex->is_string()) return fail("is no string");
    const std::string& digits = hex->get_ref<const std::string&>();
    if (digits.size() % 2 != 0 || digits.find_first_not_of("0123456789abcdef") != std::string::npos)
      return fail("has a hex that is no list of bytes");
    value.clear();
    for (size_t at = 0; at < digits.size(); at += 2)
      value += static_cast<char>(std::strtol(digits.substr(at, 2).c_str(), nullptr, 16));
  }
  void read(const Json& json, Time& value) {
    int64_t count = 0;
    read(json, count);
    value = Time(count);
  }
  void read(const Json& json, std::chrono::milliseconds& value) {
    int64_t count = 0;
    read(json, count);
    value = std::chrono::milliseconds(count);
  }
  void read(const Json& json, EndReason& value) {
    const auto reason = json.is_string() ? parse_end_reason(json.get_ref<const std::string&>()) : std::nullopt;
    if (!reason) return fail("is none of stop, length, cancelled, deadline, error");
    value = *reason;
  }
  // [token, log-probability, then pairs of the most likely ones]
  void read(const Json& json, GeneratedToken& value) {
    if (!json.is_array() || json.size() < 2 || json.size() % 2 != 0)
      return fail("holds an entry that is no list of tokens and log-probabilities");
    const auto pair = [&](size_t at, int32_t& token, float& logprob) {
      read(json[at], token);
      const auto exact =
          json[at + 1].is_string() ? parse_hex_float(json[at + 1].get_ref<const std::string&>()) : std::nullopt;
      if (!exact) return fail("holds a log-probability that is no hexadecimal float");
      logprob = *exact;
    };
    pair(0, value.token, value.logprob);
    for (size_t at = 2; at < json.size() && fault_.ok(); at += 2) {
      TokenLogprob& other = value.top_logprobs.emplace_back();
      pair(at, other.token, other.logprob);
    }
  }
  template <typename T>
  void read(const Json& json, std::vector<T>& list) {
    if (!json.is_array()) return fail("is no list");
    list.resize(json.size());
    for (size_t i = 0; i < list.size() && fault_.ok(); ++i) read(json[i], list[i]);
  }
  template <typename T>
  void read(const Json& json, std::optional<T>& value) {
    if (json.is_null()) return value.reset();
    read(json, value.emplace());
  }
  template <typename T>
  void read(const Json& json, T& value) {
    if constexpr (std::is_enum_v<T>) {
      read_enum(json, value);
    } else if constexpr (std::is_integral_v<T>) {
      if (!json.is_number_integer()) return fail("is no integer");
      const bool fits =
          json.is_number_unsigned() ? std::in_range<T>(json.get<uint64_t>()) : std::in_range<T>(json.get<int64_t>());
      if (!fits) return fail("is out of range");
      value = json.get<T>();
    } else {
      ObjectReader inner(json, path_ + (path_.empty() ? "" : ".") + name_);
      visit_fields(inner, value);
      if (Status status = inner.finish(); !status.ok() && fault_.ok()) fault_ = std::move(status);
    }
  }
  template <typename T>
  void read_enum(const Json& json, T& value) {
    constexpr int kMost = static_cast<int>(last_of(T{}));
    int32_t number = 0;
    read(json, number);
    if (number < 0 || number > kMost) return fail(fmt::format("is {}; allowed: 0 to {}", number, kMost));
    value = static_cast<T>(number);
  }

  const Json& object_;
  std::string path_;
  std::string name_;
  size_t known_ = 0;
  Status fault_;
};

Result<LogLine> parse_header(const Json& json) {
  ObjectReader reader(json, "");
  int64_t version = 0;
  reader.field("deepinfer_request_log", version);
  if (version != 0 && version != kRequestLogVersion)
    return Status(StatusCode::kUnsupported,
                  fmt::format("deepinfer_request_log is {}; this build reads version {}", version, kRequestLogVersion));
  RequestLogHeader header;
  visit_fields(reader, header);
  DI_RETURN_IF_ERROR(reader.finish());
  return LogLine(std::move(header));
}

Result<LogLine> parse_request(const Json& json) {
  ObjectReader reader(json, "");
  LoggedRequest logged;
  reader.field("request", logged.id);
  reader.field("at_ns", logged.at);
  visit_fields(reader, logged.request);
  DI_RETURN_IF_ERROR(reader.finish());
  return LogLine(std::move(logged));
}

Result<LogLine> parse_end(const Json& json) {
  ObjectReader reader(json, "");
  LoggedEnd end;
  reader.field("end", end.id);
  visit_fields(reader, end.answer);
  DI_RETURN_IF_ERROR(reader.finish());
  return LogLine(std::move(end));
}

}  // namespace

Result<LogLine> parse_log_line(std::string_view line) {
  auto json = parse_json(line);
  if (!json.ok()) return corrupt_file(json.status().message());
  if (json->is_object()) {
    if (json->contains("deepinfer_request_log")) return parse_header(*json);
    if (json->contains("request")) return parse_request(*json);
    if (json->contains("end")) return parse_end(*json);
  }
  return corrupt_file("the line is no object with `deepinfer_request_log`, `request` or `end`");
}

}  // namespace deepinfer
