#include "text/json_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "text/utf8.h"

namespace deepinfer {
namespace {

// ---- reading ------------------------------------------------------------------------------------------------------

// Builds the value from nlohmann's SAX events.  Its own DOM parser has no depth limit and looks for repeated keys by
// scanning the object (quadratic on an object with many keys); this one keeps an index for large objects.
class ValueBuilder {
 public:
  explicit ValueBuilder(Json& root) : root_(root) {}

  bool null() { return put(Json(nullptr)); }
  bool boolean(bool value) { return put(Json(value)); }
  // A token with a minus sign that is zero is "-0": JSON readers that keep its sign make it a double.
  bool number_integer(int64_t value) { return put(value == 0 ? Json(-0.0) : Json(value)); }
  bool number_unsigned(uint64_t value) { return put(Json(value)); }
  bool number_float(double value, const std::string&) { return put(Json(value)); }
  bool string(std::string& value) { return put(Json(std::move(value))); }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    Level& level = levels_.back();
    // The vector underneath: ordered_map's own emplace would scan for the key once more.
    Members& members = level.value->get_ref<Json::object_t&>();
    const size_t place = find(level, members, name);
    if (place < members.size()) {
      level.member = &members[place].second;
      *level.member = nullptr;
      return true;
    }
    if (!level.index.empty()) level.index.emplace(name, place);
    members.emplace_back(std::move(name), nullptr);
    level.member = &members.back().second;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    position_ = position;
    reason_ = error.what();
    return false;
  }

  bool too_deep() const { return too_deep_; }
  size_t position() const { return position_; }
  const std::string& reason() const { return reason_; }

 private:
  using Members = Json::object_t::Container;
  struct Level {
    Json* value;
    Json* member = nullptr;                         // objects: where the value of the last key goes
    std::unordered_map<std::string, size_t> index;  // objects with many members: key -> place
  };
  static constexpr size_t kScanLimit = 24;

  static size_t find(Level& level, const Members& members, const std::string& name) {
    if (members.size() < kScanLimit) {
      for (size_t i = 0; i < members.size(); ++i) {
        if (members[i].first == name) return i;
      }
      return members.size();
    }
    if (level.index.empty()) {
      for (size_t i = 0; i < members.size(); ++i) level.index.emplace(members[i].first, i);
    }
    const auto found = level.index.find(name);
    return found == level.index.end() ? members.size() : found->second;
  }

  Json* place(Json&& value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.member != nullptr) {
      *level.member = std::move(value);
      return level.member;
    }
    auto& elements = level.value->get_ref<Json::array_t&>();
    elements.push_back(std::move(value));
    return &elements.back();
  }
  bool put(Json&& value) {
    place(std::move(value));
    return true;
  }
  bool open(Json&& value) {
    if (levels_.size() >= static_cast<size_t>(kMaxJsonDepth)) {
      too_deep_ = true;
      return false;
    }
    // Elements of the enclosing value stay where they are while this one is open: only the innermost grows.
    levels_.push_back({place(std::move(value)), nullptr, {}});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  Json& root_;
  std::vector<Level> levels_;
  bool too_deep_ = false;
  size_t position_ = 0;
  std::string reason_;
};

// "line 3 column 7: what is wrong", without quoting the text itself.
std::string describe_error(std::string_view text, const ValueBuilder& builder) {
  if (builder.too_deep()) return "nested deeper than " + std::to_string(kMaxJsonDepth) + " levels";
  const size_t end = std::min(builder.position(), text.size());
  size_t line = 1;
  size_t column = 0;
  for (size_t i = 0; i < end; ++i) {
    ++column;
    if (text[i] == '\n') {
      ++line;
      column = 0;
    }
  }
  std::string_view reason = builder.reason();
  if (const size_t parsing = reason.find("while parsing"); parsing != std::string_view::npos) {
    reason.remove_prefix(parsing);
    reason = reason.substr(0, reason.find("; last read"));
  } else if (reason.find("out_of_range") != std::string_view::npos) {
    reason = "number out of range";
  } else {
    reason = "syntax error";
  }
  return std::string(reason) + " at line " + std::to_string(line) + " column " + std::to_string(column);
}

// ---- writing ------------------------------------------------------------------------------------------------------

enum class FloatStyle { kPython, kRust };

// Shortest digits that read back as the same double, laid out as Python's repr or as Rust's ryu does.
void append_double(std::string& out, double value, FloatStyle style) {
  if (!std::isfinite(value)) {  // cannot come from parse_json
    out += "null";
    return;
  }
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  if (text.front() == '-') {
    out += '-';
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(), exponent);
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c != '.') digits += c;
  }
  const int count = static_cast<int>(digits.size());
  const int point = exponent + 1;  // the decimal point stands after this many digits
  const int lowest = style == FloatStyle::kPython ? -3 : -4;
  if (point > 16 || point < lowest) {
    out += digits[0];
    if (count > 1) out.append(".").append(digits, 1);
    out += 'e';
    if (style == FloatStyle::kPython) {
      out += exponent < 0 ? '-' : '+';
      if (std::abs(exponent) < 10) out += '0';
      out += std::to_string(std::abs(exponent));
    } else {
      out += std::to_string(exponent);
    }
  } else if (point <= 0) {
    out.append("0.").append(static_cast<size_t>(-point), '0').append(digits);
  } else if (point >= count) {
    out.append(digits).append(static_cast<size_t>(point - count), '0').append(".0");
  } else {
    out.append(digits, 0, static_cast<size_t>(point)).append(".").append(digits, static_cast<size_t>(point));
  }
}

// Depth is bounded by parse_json (kMaxJsonDepth) or by the code that built the value.
void append_value(std::string& out, const Json& value, FloatStyle style) {
  const bool spaced = style == FloatStyle::kPython;
  const std::string_view comma = spaced ? ", " : ",";
  switch (value.type()) {
    case Json::value_t::object: {
      out += '{';
      bool first = true;
      for (const auto& [key, member] : value.get_ref<const Json::object_t&>()) {
        if (!first) out += comma;
        first = false;
        out += '"';
        append_json_escaped(out, key);
        out += spaced ? "\": " : "\":";
        append_value(out, member, style);
      }
      out += '}';
      return;
    }
    case Json::value_t::array: {
      out += '[';
      bool first = true;
      for (const Json& element : value) {
        if (!first) out += comma;
        first = false;
        append_value(out, element, style);
      }
      out += ']';
      return;
    }
    case Json::value_t::string:
      out += '"';
      append_json_escaped(out, value.get_ref<const std::string&>());
      out += '"';
      return;
    case Json::value_t::boolean:
      out += value.get<bool>() ? "true" : "false";
      return;
    case Json::value_t::number_integer:
      out += std::to_string(value.get<int64_t>());
      return;
    case Json::value_t::number_unsigned:
      out += std::to_string(value.get<uint64_t>());
      return;
    case Json::value_t::number_float:
      append_double(out, value.get<double>(), style);
      return;
    case Json::value_t::null:
    case Json::value_t::binary:
    case Json::value_t::discarded:
      out += "null";
      return;
  }
}

Result<Json> read_json(std::string_view text) {
  Json root;
  ValueBuilder builder(root);
  // nlohmann's reader skips a byte order mark and takes a zero byte for the end of the text.
  if (text.starts_with("\xEF\xBB\xBF")) return invalid_argument("unexpected byte order mark at line 1 column 1");
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return invalid_argument("unexpected zero byte at offset " + std::to_string(zero));
  }
  if (!Json::sax_parse(text.begin(), text.end(), &builder, nlohmann::detail::input_format_t::json, /*strict=*/true,
                       /*ignore_comments=*/false)) {
    return invalid_argument(describe_error(text, builder));
  }
  return root;
}

}  // namespace

Result<Json> parse_json(std::string_view text) {
  return or_out_of_memory([&] { return "JSON of " + std::to_string(text.size()) + " bytes"; },
                          [&] { return read_json(text); });
}

void append_member(Json& object, std::string key, Json value) {
  Json::object_t::Container& members = object.get_ref<Json::object_t&>();
  members.emplace_back(std::move(key), std::move(value));
}

void append_python(std::string& out, const Json& value) {
  append_value(out, value, FloatStyle::kPython);
}

std::string dump_python(const Json& value) {
  std::string out;
  append_python(out, value);
  return out;
}

void append_compact(std::string& out, const Json& value) {
  append_value(out, value, FloatStyle::kRust);
}

std::string dump_compact(const Json& value) {
  std::string out;
  append_compact(out, value);
  return out;
}

void append_json_escaped(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  size_t plain = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, plain, i - plain);
    plain = i + 1;
    out += '\\';
    switch (c) {
      case '"':
      case '\\':
        out += static_cast<char>(c);
        break;
      case '\n':
        out += 'n';
        break;
      case '\r':
        out += 'r';
        break;
      case '\t':
        out += 't';
        break;
      case '\b':
        out += 'b';
        break;
      case '\f':
        out += 'f';
        break;
      default:
        out += "u00";
        out += kHex[c >> 4];
        out += kHex[c & 15];
    }
  }
  out.append(text, plain);
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  if (is_valid_utf8(text)) {
    append_json_escaped(out, text);
  } else {
    std::string repaired;
    append_repaired_utf8(text, repaired);
    append_json_escaped(out, repaired);
  }
  out += '"';
}

}  // namespace deepinfer
