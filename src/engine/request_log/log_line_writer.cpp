#include <fmt/format.h>

#include <iterator>
#include <type_traits>

#include "engine/request_log/log_line.h"
#include "engine/request_log/request_fields.h"
#include "text/json_text.h"
#include "text/utf8.h"

namespace deepinfer {
namespace {

class LineWriter {
 public:
  template <typename T>
  void field(const char* name, const T& value) {
    out_ += out_.back() == '{' ? "\"" : ",\"";
    out_ += name;
    out_ += "\":";
    write(value);
  }
  std::string take() {
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  void write(bool value) { out_ += value ? "true" : "false"; }
  void write(float value) {
    // A double that is the float: reading it gives the same bits.
    fmt::format_to(std::back_inserter(out_), "{}", static_cast<double>(value));
  }
  void write(const std::string& text) {
    if (is_utf8(text)) {
      out_ += '"';
      append_json_escaped(out_, text);
      out_ += '"';
      return;
    }
    out_ += "{\"hex\":\"";
    for (const char c : text) fmt::format_to(std::back_inserter(out_), "{:02x}", static_cast<unsigned char>(c));
    out_ += "\"}";
  }
  void write(Time time) { write(static_cast<int64_t>(time.count())); }
  void write(std::chrono::milliseconds time) { write(static_cast<int64_t>(time.count())); }
  void write(EndReason reason) { write(std::string(to_string(reason))); }
  void write(const GeneratedToken& token) {
    fmt::format_to(std::back_inserter(out_), "[{},\"{:a}\"", token.token, token.logprob);
    for (const TokenLogprob& other : token.top_logprobs)
      fmt::format_to(std::back_inserter(out_), ",{},\"{:a}\"", other.token, other.logprob);
    out_ += ']';
  }
  template <typename T>
  void write(const std::vector<T>& list) {
    out_ += '[';
    for (const T& value : list) {
      if (&value != list.data()) out_ += ',';
      write(value);
    }
    out_ += ']';
  }
  template <typename T>
  void write(const std::optional<T>& value) {
    if (value) {
      write(*value);
    } else {
      out_ += "null";
    }
  }
  template <typename T>
  void write(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      fmt::format_to(std::back_inserter(out_), "{}", static_cast<int>(value));
    } else if constexpr (std::is_integral_v<T>) {
      fmt::format_to(std::back_inserter(out_), "{}", value);
    } else {
      out_ += '{';
      visit_fields(*this, value);
      out_ += '}';
    }
  }
  static bool is_utf8(std::string_view text) {
    while (!text.empty()) {
      const Utf8Prefix prefix = utf8_prefix(text);
      if (prefix.kind != Utf8Prefix::Kind::kCharacter) return false;
      text.remove_prefix(prefix.length);
    }
    return true;
  }

  std::string out_ = "{";
};

}  // namespace

std::string header_line(const RequestLogHeader& header) {
  LineWriter line;
  line.field("deepinfer_request_log", kRequestLogVersion);
  visit_fields(line, header);
  return line.take();
}

std::string request_line(RequestId id, Time at, const EngineRequest& request) {
  LineWriter line;
  line.field("request", id);
  line.field("at_ns", at);
  visit_fields(line, request);
  return line.take();
}

std::string end_line(RequestId id, const LoggedAnswer& answer) {
  LineWriter line;
  line.field("end", id);
  visit_fields(line, answer);
  return line.take();
}

}  // namespace deepinfer
