#include "grammar/json_document.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "grammar/codepoint_set.h"

namespace deepinfer {
namespace {

// Looks at a document before it is built: depth, repeated keys, numbers that no double holds.
class DocumentCheck : public nlohmann::json_sax<JsonDocument> {
 public:
  explicit DocumentCheck(int depth) : most_depth_(depth) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override {
    keys_.emplace_back();
    return deeper();
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(size_t) override {
    keys_.emplace_back();
    return deeper();
  }
  bool end_array() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    problem = fmt::format("the key \"{}\" stands twice in one object", name);
    return false;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    problem = fmt::format("not JSON at byte {}", position);
    return false;
  }

  std::string problem;

 private:
  bool deeper() {
    if (++depth_ <= most_depth_) return true;
    problem = fmt::format("nested deeper than {}", most_depth_);
    return false;
  }

  int most_depth_;
  int depth_ = 0;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

Result<JsonDocument> read_json_document(std::string_view text, std::string_view what, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    return invalid_argument(fmt::format("{}: {} bytes, at most {} are accepted", what, text.size(), limits.bytes));
  std::vector<uint32_t> codepoints;
  size_t bad = 0;
  if (!read_utf8(text, codepoints, &bad))
    return invalid_argument(fmt::format("{}: not UTF-8 at byte {}", what, bad + 1));
  DocumentCheck check(limits.depth);
  if (!JsonDocument::sax_parse(text.begin(), text.end(), &check))
    return invalid_argument(fmt::format("{}: {}", what, check.problem.empty() ? "not JSON" : check.problem));
  JsonDocument document = JsonDocument::parse(text.begin(), text.end(), nullptr, false);
  if (document.is_discarded()) return invalid_argument(fmt::format("{}: not JSON", what));
  return document;
}

std::string dump_canonical(const JsonDocument& value) {
  return value.dump(-1, ' ', false, JsonDocument::error_handler_t::replace);
}

}  // namespace deepinfer
