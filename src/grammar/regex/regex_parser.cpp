#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "grammar/regex/regex_syntax.h"

namespace deepinfer {
namespace {

using Node = Regex::Node;

const CodepointSet kDigits{{'0', '9'}};
const CodepointSet kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
// White space and line ends of ECMA-262.
const CodepointSet kSpace{{9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CodepointSet kLineEnds{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

class RegexParser {
 public:
  RegexParser(const std::vector<uint32_t>& text, RegexUse use, const RegexLimits& limits)
      : text_(text), use_(use), limits_(limits) {}

  Result<Regex> parse();

 private:
  // An open group: finished alternatives and the one being read.
  struct Group {
    std::vector<int> alternatives;
    std::vector<int> sequence;
    bool anchored_start = false;  // of the alternative being read; only in the outermost group
    bool anchored_end = false;
    size_t opened_at = 0;
  };

  bool at_end() const { return at_ == text_.size(); }
  uint32_t peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0xFFFFFFFF; }
  Status wrong(size_t position, std::string_view what) const {
    return invalid_argument(fmt::format("regular expression, character {}: {}", position + 1, what));
  }
  Status refused(size_t position, std::string_view what) const {
    return unsupported(fmt::format("regular expression, character {}: {} not supported", position + 1, what));
  }

  int add(Node node) {
    regex_.nodes.push_back(std::move(node));
    return static_cast<int>(regex_.nodes.size()) - 1;
  }
  int add_class(CodepointSet set) {
    Node node;
    node.kind = Node::Kind::kClass;
    node.set = std::move(set);
    return add(std::move(node));
  }
  int add_list(Node::Kind kind, std::vector<int> children) {
    if (children.size() == 1) return children[0];
    Node node;
    node.kind = children.empty() ? Node::Kind::kEmpty : kind;
    node.children = std::move(children);
    return add(std::move(node));
  }
  int add_repeat(int child, int64_t least, int64_t most) {
    Node node;
    node.kind = Node::Kind::kRepeat;
    node.children = {child};
    node.least = least;
    node.most = most;
    return add(std::move(node));
  }

  void finish_alternative(Group& group);
  Status open_group();
  Status read_quantifier(Group& group);
  Status read_count(int64_t& value);
  Result<CodepointSet> read_escape(bool in_class);
  Result<uint32_t> read_hex(size_t digits);
  Result<CodepointSet> read_class();
  Status check_size();

  const std::vector<uint32_t>& text_;
  RegexUse use_;
  RegexLimits limits_;
  size_t at_ = 0;
  bool quantifiable_ = false;  // the last thing read may be repeated
  std::vector<Group> groups_;
  Regex regex_;
};

void RegexParser::finish_alternative(Group& group) {
  std::vector<int> sequence = std::move(group.sequence);
  if (groups_.size() == 1 && use_ == RegexUse::kSearch) {
    // Whatever is not anchored may stand inside a longer text.
    if (!group.anchored_start) sequence.insert(sequence.begin(), add_repeat(add_class(CodepointSet::all()), 0, -1));
    if (!group.anchored_end) sequence.push_back(add_repeat(add_class(CodepointSet::all()), 0, -1));
  }
  group.alternatives.push_back(add_list(Node::Kind::kSequence, std::move(sequence)));
  group.sequence.clear();
  group.anchored_start = group.anchored_end = false;
}

Status RegexParser::open_group() {
  const size_t opened = at_++;
  if (static_cast<int>(groups_.size()) > limits_.depth)
    return wrong(opened, fmt::format("groups are nested deeper than {}", limits_.depth));
  if (peek() == '?') {
    ++at_;
    if (peek() == ':') {
      ++at_;
    } else if (peek() == '=' || peek() == '!') {
      return refused(opened, "look-ahead is");
    } else if (peek() == '<' && (peek(1) == '=' || peek(1) == '!')) {
      return refused(opened, "look-behind is");
    } else if (peek() == '<') {
      ++at_;
      const size_t name = at_;
      while (!at_end() && (kWord.contains(peek()) || peek() == '$')) ++at_;
      if (at_ == name || peek() != '>') return wrong(opened, "a group's name is not closed by >");
      ++at_;
    } else {
      return refused(opened, "flags inside an expression are");
    }
  }
  Group group;
  group.opened_at = opened;
  groups_.push_back(std::move(group));
  quantifiable_ = false;
  return {};
}

Status RegexParser::read_count(int64_t& value) {
  const size_t start = at_;
  value = 0;
  while (!at_end() && kDigits.contains(peek())) {
    value = value * 10 + static_cast<int64_t>(peek() - '0');
    if (value > limits_.repeat) return wrong(start, fmt::format("a count is above {}", limits_.repeat));
    ++at_;
  }
  return at_ == start ? wrong(start, "a count is missing") : Status();
}

Status RegexParser::read_quantifier(Group& group) {
  const size_t start = at_;
  int64_t least = 0, most = -1;
  const uint32_t sign = peek();
  ++at_;
  if (sign == '+') {
    least = 1;
  } else if (sign == '?') {
    most = 1;
  } else if (sign == '{') {
    DI_RETURN_IF_ERROR(read_count(least));
    most = least;
    if (peek() == ',') {
      ++at_;
      most = -1;
      if (peek() != '}') DI_RETURN_IF_ERROR(read_count(most));
    }
    if (peek() != '}') return wrong(at_, "a repetition is not closed by }");
    ++at_;
    if (most >= 0 && most < least) return wrong(start, fmt::format("{{{},{}}} has its bounds reversed", least, most));
  }
  if (!quantifiable_ || group.sequence.empty()) return wrong(start, "there is nothing to repeat");
  if (peek() == '?') ++at_;  // lazy: the same texts match
  const int child = group.sequence.back();
  group.sequence.back() = add_repeat(child, least, most);
  quantifiable_ = false;
  return {};
}

Result<uint32_t> RegexParser::read_hex(size_t digits) {
  uint32_t value = 0;
  for (size_t i = 0; i < digits; ++i, ++at_) {
    const uint32_t c = peek();
    const int digit = c >= '0' && c <= '9'   ? static_cast<int>(c - '0')
                      : c >= 'a' && c <= 'f' ? static_cast<int>(c - 'a') + 10
                      : c >= 'A' && c <= 'F' ? static_cast<int>(c - 'A') + 10
                                             : -1;
    if (digit < 0) return wrong(at_, "a hexadecimal digit is missing");
    value = value * 16 + static_cast<uint32_t>(digit);
  }
  return value;
}

// At the backslash.
Result<CodepointSet> RegexParser::read_escape(bool in_class) {
  const size_t start = at_++;
  if (at_end()) return wrong(start, "an escape is not finished");
  const uint32_t c = peek();
  ++at_;
  const auto one = [](uint32_t codepoint) { return CodepointSet{{codepoint, codepoint}}; };
  switch (c) {
    case 'd':
      return kDigits;
    case 'D':
      return kDigits.complement();
    case 'w':
      return kWord;
    case 'W':
      return kWord.complement();
    case 's':
      return kSpace;
    case 'S':
      return kSpace.complement();
    case 't':
      return one('\t');
    case 'n':
      return one('\n');
    case 'v':
      return one('\v');
    case 'f':
      return one('\f');
    case 'r':
      return one('\r');
    case 'b':
      if (in_class) return one('\b');
      return refused(start, "a word boundary is");
    case 'B':
      return refused(start, "a word boundary is");
    case 'p':
    case 'P':
      return refused(start, "a Unicode property is");
    case 'k':
      return refused(start, "a back-reference is");
    case '0':
      if (kDigits.contains(peek())) return refused(start, "an octal escape is");
      return one(0);
    case 'c':
      if ((peek() | 0x20) < 'a' || (peek() | 0x20) > 'z') return wrong(start, "\\c needs a letter");
      return one(text_[at_++] % 32);
    case 'x': {
      DI_ASSIGN_OR_RETURN(const uint32_t value, read_hex(2));
      return one(value);
    }
    case 'u': {
      uint32_t value = 0;
      if (peek() == '{') {
        ++at_;
        size_t digits = 0;
        while (peek(digits) != '}' && digits < 7) ++digits;
        if (digits == 0 || digits > 6) return wrong(start, "\\u{...} needs 1 to 6 digits");
        DI_ASSIGN_OR_RETURN(value, read_hex(digits));
        ++at_;
      } else {
        DI_ASSIGN_OR_RETURN(value, read_hex(4));
        if (value >= 0xD800 && value < 0xDC00 && peek() == '\\' && peek(1) == 'u') {
          at_ += 2;
          DI_ASSIGN_OR_RETURN(const uint32_t low, read_hex(4));
          if (low < 0xDC00 || low > 0xDFFF) return wrong(start, "a surrogate has no partner");
          value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
        }
      }
      if (value > kLastCodepoint || (value >= 0xD800 && value < 0xE000)) return wrong(start, "no such character");
      return one(value);
    }
    default:
      if (c >= '1' && c <= '9') return refused(start, "a back-reference is");
      if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return wrong(start, "unknown escape");
      return one(c);
  }
}

// At the bracket.
Result<CodepointSet> RegexParser::read_class() {
  const size_t start = at_++;
  bool negated = false;
  if (peek() == '^') {
    negated = true;
    ++at_;
  }
  CodepointSet set;
  while (peek() != ']') {
    if (at_end()) return wrong(start, "a class is not closed by ]");
    const auto read_one = [&]() -> Result<CodepointSet> {
      if (peek() == '\\') return read_escape(true);
      const uint32_t c = text_[at_++];
      return CodepointSet{{c, c}};
    };
    const size_t from = at_;
    DI_ASSIGN_OR_RETURN(CodepointSet low, read_one());
    if (peek() == '-' && peek(1) != ']' && at_ + 1 < text_.size()) {
      const bool single = low.ranges().size() == 1 && low.ranges()[0].first == low.ranges()[0].last;
      ++at_;
      DI_ASSIGN_OR_RETURN(const CodepointSet high, read_one());
      if (!single || high.ranges().size() != 1 || high.ranges()[0].first != high.ranges()[0].last)
        return wrong(from, "a range needs one character at each end");
      if (high.ranges()[0].first < low.ranges()[0].first) return wrong(from, "a range has its ends reversed");
      low = CodepointSet{{low.ranges()[0].first, high.ranges()[0].first}};
    }
    set.add(low);
  }
  ++at_;
  return negated ? set.complement() : set;
}

Status RegexParser::check_size() {
  // Children stand before their parents, so one pass is enough.
  std::vector<int64_t> size(regex_.nodes.size(), 0);
  for (size_t i = 0; i < regex_.nodes.size(); ++i) {
    const Node& node = regex_.nodes[i];
    int64_t sum = node.kind == Node::Kind::kClass ? 1 : 0;
    for (const int child : node.children) sum += size[static_cast<size_t>(child)];
    if (node.kind == Node::Kind::kRepeat) sum *= std::max<int64_t>(std::max(node.least, node.most), 1);
    if (sum > limits_.positions)
      return invalid_argument(
          fmt::format("regular expression: counts multiply to more than {} characters", limits_.positions));
    size[i] = sum;
  }
  return {};
}

Result<Regex> RegexParser::parse() {
  groups_.emplace_back();
  while (!at_end()) {
    Group& group = groups_.back();
    const uint32_t c = peek();
    switch (c) {
      case '^':
        if (groups_.size() > 1 || !group.sequence.empty() || group.anchored_end)
          return refused(at_, "^ inside an expression is");
        group.anchored_start = true;
        quantifiable_ = false;
        ++at_;
        break;
      case '$':
        if (groups_.size() > 1 || (at_ + 1 < text_.size() && peek(1) != '|'))
          return refused(at_, "$ inside an expression is");
        group.anchored_end = true;
        quantifiable_ = false;
        ++at_;
        break;
      case '(':
        DI_RETURN_IF_ERROR(open_group());
        break;
      case ')': {
        if (groups_.size() == 1) return wrong(at_, "unmatched )");
        ++at_;
        finish_alternative(group);
        const int choice = add_list(Node::Kind::kChoice, std::move(group.alternatives));
        groups_.pop_back();
        groups_.back().sequence.push_back(choice);
        quantifiable_ = true;
        break;
      }
      case '|':
        ++at_;
        finish_alternative(group);
        quantifiable_ = false;
        break;
      case '*':
      case '+':
      case '?':
      case '{':
        DI_RETURN_IF_ERROR(read_quantifier(group));
        break;
      case '[': {
        DI_ASSIGN_OR_RETURN(CodepointSet set, read_class());
        group.sequence.push_back(add_class(std::move(set)));
        quantifiable_ = true;
        break;
      }
      case '\\': {
        DI_ASSIGN_OR_RETURN(CodepointSet set, read_escape(false));
        group.sequence.push_back(add_class(std::move(set)));
        quantifiable_ = true;
        break;
      }
      case '.':
        group.sequence.push_back(add_class(kLineEnds.complement()));
        quantifiable_ = true;
        ++at_;
        break;
      default:
        if (c == ']' || c == '}') return wrong(at_, "unmatched bracket; write it with a backslash");
        group.sequence.push_back(add_class({{c, c}}));
        quantifiable_ = true;
        ++at_;
    }
  }
  if (groups_.size() > 1) return wrong(groups_.back().opened_at, "a group is not closed by )");
  finish_alternative(groups_.back());
  regex_.root = add_list(Node::Kind::kChoice, std::move(groups_.back().alternatives));
  DI_RETURN_IF_ERROR(check_size());
  return std::move(regex_);
}

}  // namespace

Result<Regex> parse_regex(std::string_view text, RegexUse use, const RegexLimits& limits) {
  if (text.size() > limits.bytes)
    return invalid_argument(
        fmt::format("regular expression: {} bytes, at most {} are accepted", text.size(), limits.bytes));
  std::vector<uint32_t> codepoints;
  size_t bad = 0;
  if (!read_utf8(text, codepoints, &bad))
    return invalid_argument(fmt::format("regular expression, byte {}: not UTF-8", bad + 1));
  return RegexParser(codepoints, use, limits).parse();
}

}  // namespace deepinfer
