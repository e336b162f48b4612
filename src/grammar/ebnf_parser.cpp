#include "grammar/ebnf_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace deepinfer {
namespace {

bool starts_name(uint32_t c) {
  return c == '_' || c == '-' || c == '.' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(uint32_t c) {
  return c >= '0' && c <= '9';
}

class EbnfParser {
 public:
  EbnfParser(const std::vector<uint32_t>& text, RuleSet& rules, const EbnfLimits& limits)
      : text_(text), rules_(rules), limits_(limits) {}

  Result<int> parse();

 private:
  struct Group {
    Choices choices;
    Sequence sequence;
    size_t opened_at = 0;
  };
  struct Name {
    int rule = -1;
    bool defined = false;
    size_t used_at = 0;
  };

  bool at_end() const { return at_ >= text_.size(); }
  uint32_t peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }
  std::string place(size_t at) const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < text_.size(); ++i) {
      ++column;
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      }
    }
    return fmt::format("grammar, line {}, column {}", line, column);
  }
  Status wrong(size_t at, std::string_view what) const {
    return invalid_argument(fmt::format("{}: {}", place(at), what));
  }

  void skip_space();
  std::string read_name();
  bool at_definition();
  Status finish_rule();
  Status read_element();
  Status read_quantifier();
  Result<uint32_t> read_character(bool in_class);
  Result<CodepointSet> read_class();
  Result<int64_t> read_count();
  Status repeat_last(int64_t least, int64_t most, size_t at);
  Name& name(const std::string& text, size_t at);

  const std::vector<uint32_t>& text_;
  RuleSet& rules_;
  EbnfLimits limits_;
  size_t at_ = 0;
  std::map<std::string, Name> names_;
  std::vector<Group> groups_;  // the outermost is the rule itself
  int current_ = -1;
  int64_t written_out_ = 0;
};

void EbnfParser::skip_space() {
  for (; !at_end(); ++at_) {
    const uint32_t c = peek();
    if (c == '#') {
      while (!at_end() && peek() != '\n' && peek() != '\r') ++at_;
    } else if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
      return;
    }
  }
}

std::string EbnfParser::read_name() {
  std::string name;
  while (!at_end() && (starts_name(peek()) || (!name.empty() && is_digit(peek()))))
    name.push_back(static_cast<char>(text_[at_++]));
  return name;
}

// A name with "::=" behind it.
bool EbnfParser::at_definition() {
  if (!starts_name(peek())) return false;
  const size_t start = at_;
  read_name();
  skip_space();
  const bool found = peek() == ':' && peek(1) == ':' && peek(2) == '=';
  at_ = start;
  return found;
}

EbnfParser::Name& EbnfParser::name(const std::string& text, size_t at) {
  Name& found = names_[text];
  if (found.rule < 0) {
    found.rule = rules_.add();
    found.used_at = at;
  }
  return found;
}

Status EbnfParser::finish_rule() {
  if (current_ < 0) return {};
  if (groups_.size() > 1) return wrong(groups_.back().opened_at, "a group is not closed by )");
  Group& body = groups_.back();
  if (body.sequence.empty()) return wrong(at_, "an alternative is empty; write \"\" for the empty text");
  body.choices.push_back(std::move(body.sequence));
  rules_.set(current_, std::move(body.choices));
  groups_.clear();
  current_ = -1;
  return {};
}

Result<uint32_t> EbnfParser::read_character(bool in_class) {
  const size_t start = at_;
  const uint32_t c = text_[at_++];
  if (c != '\\') return c;
  if (at_end()) return wrong(start, "an escape is not finished");
  const uint32_t e = text_[at_++];
  switch (e) {
    case 'n':
      return uint32_t{'\n'};
    case 'r':
      return uint32_t{'\r'};
    case 't':
      return uint32_t{'\t'};
    case 'a':
      return uint32_t{'\a'};
    case 'b':
      return uint32_t{'\b'};
    case 'f':
      return uint32_t{'\f'};
    case 'v':
      return uint32_t{'\v'};
    case '0':
      return uint32_t{0};
    case 'e':
      return uint32_t{0x1B};
    case '\\':
    case '"':
    case '\'':
    case '?':
    case '/':
      return e;
    case 'x':
    case 'u':
    case 'U': {
      const size_t digits = e == 'u' ? 4 : 8;
      uint32_t value = 0;
      size_t read = 0;
      while (read < digits &&
             ((peek() >= '0' && peek() <= '9') || ((peek() | 0x20) >= 'a' && (peek() | 0x20) <= 'f'))) {
        const uint32_t digit = text_[at_++];
        value = value * 16 + (is_digit(digit) ? digit - '0' : (digit | 0x20) - 'a' + 10);
        ++read;
      }
      if (read == 0 || (e != 'x' && read != digits)) return wrong(start, "a hexadecimal digit is missing");
      if (value > kLastCodepoint || (value >= 0xD800 && value < 0xE000)) return wrong(start, "no such character");
      return value;
    }
    default:
      break;
  }
  static constexpr std::string_view kClassOnly = "^$.*+()[]{}|-";
  if (in_class && e < 0x80 && kClassOnly.find(static_cast<char>(e)) != std::string_view::npos) return e;
  if (in_class && e < 0x80 && std::string_view("dDsSwW").find(static_cast<char>(e)) != std::string_view::npos)
    return Status(StatusCode::kUnsupported,
                  fmt::format("{}: \\{} in a class is not supported", place(start), static_cast<char>(e)));
  return wrong(start, "unknown escape");
}

Result<CodepointSet> EbnfParser::read_class() {
  const size_t start = at_++;
  bool negated = false;
  if (peek() == '^') {
    negated = true;
    ++at_;
  }
  CodepointSet set;
  for (;;) {
    if (at_end() || peek() == '\n' || peek() == '\r') return wrong(start, "a class is not closed by ] on its line");
    if (peek() == ']') break;
    const size_t from = at_;
    DI_ASSIGN_OR_RETURN(const uint32_t first, read_character(true));
    uint32_t last = first;
    if (peek() == '-' && peek(1) != ']' && peek(1) != 0 && peek(1) != '\n' && peek(1) != '\r') {
      ++at_;
      DI_ASSIGN_OR_RETURN(last, read_character(true));
      if (last < first) return wrong(from, "a range has its ends reversed");
    }
    set.add(first, last);
  }
  ++at_;
  return negated ? set.complement() : set;
}

Result<int64_t> EbnfParser::read_count() {
  skip_space();
  const size_t start = at_;
  int64_t value = 0;
  while (is_digit(peek())) {
    value = value * 10 + static_cast<int64_t>(text_[at_++] - '0');
    if (value > limits_.repeat) return wrong(start, fmt::format("a count is above {}", limits_.repeat));
  }
  if (at_ == start) return wrong(start, "a count is missing");
  skip_space();
  return value;
}

Status EbnfParser::repeat_last(int64_t least, int64_t most, size_t at) {
  Sequence& sequence = groups_.back().sequence;
  Term& term = sequence.back();
  if (term.kind != Term::Kind::kRule && term.kind != Term::Kind::kClass) term = Term::of_rule(rules_.add({{term}}));
  term.least = least;
  term.most = most;
  written_out_ += std::max(least, most);
  if (written_out_ > limits_.terms) return wrong(at, fmt::format("all counts together are above {}", limits_.terms));
  return {};
}

Status EbnfParser::read_quantifier() {
  // As in the original syntax a quantifier may stand behind spaces.
  skip_space();
  const size_t at = at_;
  switch (peek()) {
    case '*':
      ++at_;
      return repeat_last(0, -1, at);
    case '+':
      ++at_;
      return repeat_last(1, -1, at);
    case '?':
      ++at_;
      return repeat_last(0, 1, at);
    case '{':
      break;
    default:
      return {};
  }
  ++at_;
  DI_ASSIGN_OR_RETURN(const int64_t least, read_count());
  int64_t most = least;
  if (peek() == ',') {
    ++at_;
    skip_space();
    most = -1;
    if (peek() != '}') {
      DI_ASSIGN_OR_RETURN(most, read_count());
    }
  }
  if (peek() != '}') return wrong(at_, "a repetition is not closed by }");
  ++at_;
  if (most >= 0 && most < least) return wrong(at, fmt::format("{{{},{}}} has its bounds reversed", least, most));
  return repeat_last(least, most, at);
}

Status EbnfParser::read_element() {
  const size_t start = at_;
  const uint32_t c = peek();
  if (c == '"') {
    ++at_;
    std::string literal;
    for (;;) {
      if (at_end() || peek() == '\n' || peek() == '\r') return wrong(start, "a string is not closed by \" on its line");
      if (peek() == '"') break;
      DI_ASSIGN_OR_RETURN(const uint32_t codepoint, read_character(false));
      append_utf8(codepoint, literal);
    }
    ++at_;
    groups_.back().sequence.push_back(Term::literal(std::move(literal)));
  } else if (c == '[') {
    DI_ASSIGN_OR_RETURN(CodepointSet set, read_class());
    groups_.back().sequence.push_back(Term::one_of(std::move(set)));
  } else if (starts_name(c)) {
    const std::string text = read_name();
    if (text == "TagDispatch" || text == "Token" || text == "ExcludeToken" || text == "TokenTagDispatch")
      return {StatusCode::kUnsupported, fmt::format("{}: {} is not supported", place(start), text)};
    groups_.back().sequence.push_back(Term::of_rule(name(text, start).rule));
  } else {
    return wrong(start,
                 c >= 0x21 && c < 0x7F ? fmt::format("unexpected {}", static_cast<char>(c)) : "unexpected character");
  }
  return read_quantifier();
}

Result<int> EbnfParser::parse() {
  for (;;) {
    skip_space();
    if (at_end()) break;
    if (current_ < 0 || (groups_.size() == 1 && at_definition())) {
      DI_RETURN_IF_ERROR(finish_rule());
      const size_t start = at_;
      if (!at_definition()) return wrong(start, "a rule begins with its name and ::=");
      const std::string text = read_name();
      Name& rule = name(text, start);
      if (rule.defined) return wrong(start, fmt::format("the rule {} is defined twice", text));
      rule.defined = true;
      current_ = rule.rule;
      groups_.emplace_back();
      groups_.back().opened_at = start;
      skip_space();
      at_ += 3;
      continue;
    }
    if (peek() == '(') {
      if (peek(1) == '=')
        return Status(StatusCode::kUnsupported, fmt::format("{}: look-ahead is not supported", place(at_)));
      if (static_cast<int>(groups_.size()) > limits_.depth)
        return wrong(at_, fmt::format("groups are nested deeper than {}", limits_.depth));
      groups_.emplace_back();
      groups_.back().opened_at = at_++;
    } else if (peek() == ')') {
      if (groups_.size() == 1) return wrong(at_, "unmatched )");
      Group group = std::move(groups_.back());
      groups_.pop_back();
      if (group.sequence.empty() && !group.choices.empty())
        return wrong(at_, "an alternative is empty; write \"\" for the empty text");
      group.choices.push_back(std::move(group.sequence));
      ++at_;
      groups_.back().sequence.push_back(Term::of_rule(rules_.add(std::move(group.choices))));
      DI_RETURN_IF_ERROR(read_quantifier());
    } else if (peek() == '|') {
      if (groups_.back().sequence.empty()) return wrong(at_, "an alternative is empty; write \"\" for the empty text");
      Group& group = groups_.back();
      group.choices.push_back(std::move(group.sequence));
      group.sequence.clear();
      ++at_;
    } else {
      DI_RETURN_IF_ERROR(read_element());
    }
    if (rules_.terms() > limits_.terms) return wrong(at_, fmt::format("more than {} elements", limits_.terms));
  }
  DI_RETURN_IF_ERROR(finish_rule());
  for (const auto& [text, rule] : names_)
    if (!rule.defined) return wrong(rule.used_at, fmt::format("the rule {} is not defined", text));
  const auto root = names_.find("root");
  if (root == names_.end()) return invalid_argument("grammar: there is no rule named root");
  return root->second.rule;
}

}  // namespace

Result<int> parse_ebnf(std::string_view text, RuleSet& rules, const EbnfLimits& limits) {
  if (text.size() > limits.bytes)
    return invalid_argument(fmt::format("grammar: {} bytes, at most {} are accepted", text.size(), limits.bytes));
  std::vector<uint32_t> codepoints;
  size_t bad = 0;
  if (!read_utf8(text, codepoints, &bad)) return invalid_argument(fmt::format("grammar, byte {}: not UTF-8", bad + 1));
  return EbnfParser(codepoints, rules, limits).parse();
}

}  // namespace deepinfer
