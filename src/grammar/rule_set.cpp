#include "grammar/rule_set.h"

#include <fmt/format.h>

#include <iterator>

namespace deepinfer {
namespace {

bool is_plain(uint32_t codepoint) {
  return (codepoint >= 'a' && codepoint <= 'z') || (codepoint >= 'A' && codepoint <= 'Z') ||
         (codepoint >= '0' && codepoint <= '9');
}

void write_codepoint(uint32_t codepoint, std::string& out) {
  if (is_plain(codepoint)) {
    out.push_back(static_cast<char>(codepoint));
  } else if (codepoint < 0x10000) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", codepoint);
  } else {
    fmt::format_to(std::back_inserter(out), "\\U{:08x}", codepoint);
  }
}

void write_text(const std::string& text, std::string& out) {
  std::vector<uint32_t> codepoints;
  DI_CHECK(read_utf8(text, codepoints), "literals of a grammar are UTF-8");
  out.push_back('"');
  for (const uint32_t codepoint : codepoints) write_codepoint(codepoint, out);
  out.push_back('"');
}

void write_class(const CodepointSet& set, std::string& out) {
  out.push_back('[');
  for (const CodepointRange& range : set.ranges()) {
    write_codepoint(range.first, out);
    if (range.last == range.first) continue;
    if (range.last != range.first + 1) out.push_back('-');
    write_codepoint(range.last, out);
  }
  out.push_back(']');
}

void write_repeat(const Term& term, std::string& out) {
  if (term.least == 1 && term.most == 1) return;
  if (term.least == 0 && term.most == 1) {
    out.push_back('?');
  } else if (term.least == 0 && term.most < 0) {
    out.push_back('*');
  } else if (term.least == 1 && term.most < 0) {
    out.push_back('+');
  } else if (term.most < 0) {
    fmt::format_to(std::back_inserter(out), "{{{},}}", term.least);
  } else {
    fmt::format_to(std::back_inserter(out), "{{{},{}}}", term.least, term.most);
  }
}

}  // namespace

Term Term::literal(std::string text) {
  Term term;
  term.text = std::move(text);
  return term;
}

Term Term::one_of(CodepointSet set, int64_t least, int64_t most) {
  Term term;
  term.kind = Kind::kClass;
  term.set = std::move(set);
  term.least = least;
  term.most = most;
  return term;
}

Term Term::of_rule(int rule, int64_t least, int64_t most) {
  Term term;
  term.kind = Kind::kRule;
  term.rule = rule;
  term.least = least;
  term.most = most;
  return term;
}

Term Term::free_text(std::vector<std::string> excluded) {
  Term term;
  term.kind = Kind::kFreeText;
  term.excluded = std::move(excluded);
  return term;
}

int RuleSet::add(Choices choices) {
  rules_.emplace_back();
  set(size() - 1, std::move(choices));
  return size() - 1;
}

void RuleSet::set(int rule, Choices choices) {
  for (const Sequence& sequence : choices) terms_ += static_cast<int64_t>(sequence.size()) + 1;
  rules_[static_cast<size_t>(rule)] = std::move(choices);
}

// A worklist from rules to those that name them: linear in the number of terms.
std::vector<bool> RuleSet::productive_rules() const {
  std::vector<bool> productive(rules_.size(), false);
  struct Place {
    size_t rule;
    size_t choice;
  };
  std::vector<std::vector<Place>> users(rules_.size());
  std::vector<std::vector<int>> missing(rules_.size());  // [rule][choice]: needed rules not yet known to be productive
  std::vector<size_t> ready;
  const auto derive = [&](size_t rule) {
    if (productive[rule]) return;
    productive[rule] = true;
    ready.push_back(rule);
  };
  for (size_t r = 0; r < rules_.size(); ++r) {
    missing[r].resize(rules_[r].size(), 0);
    for (size_t c = 0; c < rules_[r].size(); ++c) {
      for (const Term& term : rules_[r][c]) {
        if (term.least == 0) continue;
        if (term.kind == Term::Kind::kRule) {
          ++missing[r][c];
          users[static_cast<size_t>(term.rule)].push_back({r, c});
        } else if (term.kind == Term::Kind::kClass && term.set.empty()) {
          ++missing[r][c];
        }
      }
      if (missing[r][c] == 0) derive(r);
    }
  }
  while (!ready.empty()) {
    const size_t rule = ready.back();
    ready.pop_back();
    for (const Place& place : users[rule])
      if (--missing[place.rule][place.choice] == 0) derive(place.rule);
  }
  return productive;
}

Result<std::string> RuleSet::write_ebnf(int root) const {
  const std::vector<bool> productive = productive_rules();
  const auto usable = [&](const Term& term) {
    if (term.kind == Term::Kind::kClass) return !term.set.empty();
    return term.kind != Term::Kind::kRule || productive[static_cast<size_t>(term.rule)];
  };
  if (!productive[static_cast<size_t>(root)]) return invalid_argument("no text at all can match");

  std::string out;
  std::vector<bool> queued(rules_.size(), false);
  std::vector<int> queue{root};
  queued[static_cast<size_t>(root)] = true;
  int free_texts = 0;
  std::string extra;  // rules of free text: the library wants each alone in a rule
  for (size_t next = 0; next < queue.size(); ++next) {
    const int rule = queue[next];
    out += rule == root ? "root" : fmt::format("r{}", rule);
    out += " ::= ";
    bool first_choice = true;
    for (const Sequence& sequence : choices(rule)) {
      bool possible = true;
      for (const Term& term : sequence) possible = possible && (term.least == 0 || usable(term));
      if (!possible) continue;
      if (!first_choice) out += " | ";
      first_choice = false;
      bool empty = true;
      for (const Term& term : sequence) {
        if (term.most == 0 || !usable(term)) continue;
        if (term.kind == Term::Kind::kText && term.text.empty()) continue;
        if (!empty) out.push_back(' ');
        empty = false;
        switch (term.kind) {
          case Term::Kind::kText:
            write_text(term.text, out);
            break;
          case Term::Kind::kClass:
            write_class(term.set, out);
            break;
          case Term::Kind::kRule:
            out += term.rule == root ? "root" : fmt::format("r{}", term.rule);
            if (!queued[static_cast<size_t>(term.rule)]) {
              queued[static_cast<size_t>(term.rule)] = true;
              queue.push_back(term.rule);
            }
            break;
          case Term::Kind::kFreeText: {
            const std::string name = fmt::format("free{}", free_texts++);
            extra += name + " ::= TagDispatch(excludes=(";
            for (size_t i = 0; i < term.excluded.size(); ++i) {
              if (i > 0) extra += ", ";
              write_text(term.excluded[i], extra);
            }
            extra += "))\n";
            out += name;
            break;
          }
        }
        write_repeat(term, out);
      }
      if (empty) out += "\"\"";
    }
    out.push_back('\n');
  }
  return out + extra;
}

}  // namespace deepinfer
