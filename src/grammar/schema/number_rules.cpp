#include "grammar/schema/number_rules.h"

namespace deepinfer {
namespace {

Term digit(char first, char last, int64_t least = 1, int64_t most = 1) {
  return Term::one_of({{static_cast<uint32_t>(first), static_cast<uint32_t>(last)}}, least, most);
}

void append(Choices& to, Choices from) {
  for (Sequence& sequence : from) to.push_back(std::move(sequence));
}

Sequence joined(Sequence head, const Sequence& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

// Digits of the same number as `low` and `high`, from low to high.
Choices same_length(const std::string& low, const std::string& high) {
  Choices choices;
  size_t shared = 0;
  while (shared < low.size() && low[shared] == high[shared]) ++shared;
  const Term prefix = Term::literal(low.substr(0, shared));
  if (shared == low.size()) return {{prefix}};
  const auto rest = static_cast<int64_t>(low.size() - shared - 1);
  if (high[shared] - low[shared] > 1)
    choices.push_back({prefix, digit(static_cast<char>(low[shared] + 1), static_cast<char>(high[shared] - 1)),
                       digit('0', '9', rest, rest)});
  // From low up to the last number with its leading digits.
  for (size_t i = shared + 1; i < low.size(); ++i) {
    if (low[i] == '9') continue;
    const auto after = static_cast<int64_t>(low.size() - i - 1);
    choices.push_back(
        {Term::literal(low.substr(0, i)), digit(static_cast<char>(low[i] + 1), '9'), digit('0', '9', after, after)});
  }
  choices.push_back({Term::literal(low)});
  for (size_t i = shared + 1; i < high.size(); ++i) {
    if (high[i] == '0') continue;
    const auto after = static_cast<int64_t>(high.size() - i - 1);
    choices.push_back(
        {Term::literal(high.substr(0, i)), digit('0', static_cast<char>(high[i] - 1)), digit('0', '9', after, after)});
  }
  choices.push_back({Term::literal(high)});
  return choices;
}

// Integers from `low` (0 or more) to `high`, without sign.
Choices magnitudes(Int128 low, std::optional<Int128> high) {
  Choices choices;
  if (high && *high < low) return choices;
  if (low == 0) {
    choices.push_back({Term::literal("0")});
    low = 1;
    if (high && *high < low) return choices;
  }
  const std::string from = to_digits(low);
  if (!high) {
    append(choices, same_length(from, std::string(from.size(), '9')));
    choices.push_back({digit('1', '9'), digit('0', '9', static_cast<int64_t>(from.size()), -1)});
    return choices;
  }
  const std::string to = to_digits(*high);
  for (size_t length = from.size(); length <= to.size(); ++length) {
    std::string first = from;
    if (length > from.size()) {
      first.assign(length, '0');
      first[0] = '1';
    }
    const std::string last = length == to.size() ? to : std::string(length, '9');
    append(choices, same_length(first, last));
  }
  return choices;
}

// Digits behind the point that stand for at least (above) 0.T; `nonempty`: at least one digit.
Choices tail_least(const std::string& t, bool above, bool nonempty) {
  Choices choices;
  for (size_t i = 0; i < t.size(); ++i)
    if (t[i] != '9')
      choices.push_back(
          {Term::literal(t.substr(0, i)), digit(static_cast<char>(t[i] + 1), '9'), digit('0', '9', 0, -1)});
  if (above) {
    choices.push_back({Term::literal(t), digit('0', '9', 0, -1), digit('1', '9'), digit('0', '9', 0, -1)});
  } else {
    choices.push_back({Term::literal(t), digit('0', '9', t.empty() && nonempty ? 1 : 0, -1)});
  }
  return choices;
}

// At most (below) 0.T.
Choices tail_most(const std::string& t, bool below, bool nonempty) {
  Choices choices;
  for (size_t i = 0; i < t.size(); ++i) {
    if (t[i] != '0')
      choices.push_back(
          {Term::literal(t.substr(0, i)), digit('0', static_cast<char>(t[i] - 1)), digit('0', '9', 0, -1)});
    if (i > 0 || !nonempty) choices.push_back({Term::literal(t.substr(0, i))});
  }
  if (!below) choices.push_back({Term::literal(t), digit('0', '0', t.empty() && nonempty ? 1 : 0, -1)});
  return choices;
}

// What may follow the whole part: nothing, or a point and digits.
Choices with_point(Choices tails, bool may_be_whole) {
  Choices choices;
  if (may_be_whole) choices.push_back({});
  for (Sequence& tail : tails) choices.push_back(joined({Term::literal(".")}, tail));
  return choices;
}

Choices tail_between(const std::string& low, bool above, const std::string& high, bool below) {
  const size_t places = std::max(low.size(), high.size());
  const std::string from = low + std::string(places - low.size(), '0');
  const std::string to = high + std::string(places - high.size(), '0');
  if (from > to) return {};
  if (from == to) {
    if (above || below) return {};
    return {{Term::literal(low), digit('0', '0', low.empty() ? 1 : 0, -1)}};
  }
  size_t shared = 0;
  while (from[shared] == to[shared]) ++shared;
  Choices choices;
  const Term prefix = Term::literal(from.substr(0, shared));
  if (to[shared] - from[shared] > 1)
    choices.push_back({prefix, digit(static_cast<char>(from[shared] + 1), static_cast<char>(to[shared] - 1)),
                       digit('0', '9', 0, -1)});
  const auto stripped = [](std::string text) {
    text.resize(text.find_last_not_of('0') + 1);
    return text;
  };
  for (const Sequence& tail : tail_least(stripped(from.substr(shared + 1)), above, false))
    choices.push_back(joined({Term::literal(from.substr(0, shared + 1))}, tail));
  for (const Sequence& tail : tail_most(stripped(to.substr(shared + 1)), below, false))
    choices.push_back(joined({Term::literal(to.substr(0, shared + 1))}, tail));
  // Shorter spellings of the lower end itself.
  if (!above)
    for (size_t i = std::max<size_t>(low.size(), 1); i <= shared; ++i)
      choices.push_back({Term::literal(from.substr(0, i))});
  return choices;
}

struct Magnitude {
  Decimal least;
  bool above = false;
  std::optional<Decimal> most;
  bool below = false;
};

std::string whole_digits(const Decimal& value) {
  return value.whole.empty() ? "0" : value.whole;
}

// Numbers without sign and exponent.
Choices magnitudes(RuleSet& rules, const Magnitude& range) {
  Choices choices;
  if (range.most && *range.most < range.least) return choices;
  const auto with_tail = [&](Choices wholes, Choices tails) {
    if (wholes.empty() || tails.empty()) return;
    choices.push_back({Term::of_rule(rules.add(std::move(wholes))), Term::of_rule(rules.add(std::move(tails)))});
  };
  const Decimal& low = range.least;
  const bool low_whole = low.integral() && !range.above;
  if (range.most && range.most->whole == low.whole) {
    with_tail({{Term::literal(whole_digits(low))}},
              with_point(tail_between(low.fraction, range.above, range.most->fraction, range.below),
                         low_whole && !(range.below && range.most->integral())));
    return choices;
  }
  const Choices any_tail = with_point({{digit('0', '9', 1, -1)}}, true);
  with_tail({{Term::literal(whole_digits(low))}}, with_point(tail_least(low.fraction, range.above, true), low_whole));
  const Int128 next = floor_of(low) + 1;
  if (!range.most) {
    with_tail(magnitudes(next, std::nullopt), any_tail);
    return choices;
  }
  const Decimal& high = *range.most;
  with_tail(magnitudes(next, floor_of(high) - 1), any_tail);
  with_tail({{Term::literal(whole_digits(high))}},
            with_point(tail_most(high.fraction, range.below, true), !(high.integral() && range.below)));
  return choices;
}

}  // namespace

Choices integers(RuleSet& rules, const NumberBounds& bounds) {
  std::optional<Int128> low, high;
  if (bounds.least) {
    low = ceil_of(*bounds.least);
    if (bounds.above_least && bounds.least->integral()) ++*low;
  }
  if (bounds.most) {
    high = floor_of(*bounds.most);
    if (bounds.below_most && bounds.most->integral()) --*high;
  }
  Choices choices;
  if (low && high && *high < *low) return choices;
  if (!high || *high >= 0) append(choices, magnitudes(low && *low > 0 ? *low : 0, high));
  if (!low || *low < 0) {
    Choices negative =
        magnitudes(high && *high < 0 ? -*high : Int128{1}, low ? std::optional<Int128>(-*low) : std::nullopt);
    choices.push_back({Term::literal("-"), Term::of_rule(rules.add(std::move(negative)))});
  }
  return choices;
}

Choices numbers(RuleSet& rules, const NumberBounds& bounds) {
  if (!bounds.bounded()) {
    const int whole = rules.add({{Term::literal("0")}, {digit('1', '9'), digit('0', '9', 0, -1)}});
    const int fraction = rules.add({{Term::literal("."), digit('0', '9', 1, -1)}});
    const int exponent = rules.add({{Term::one_of({{'E', 'E'}, {'e', 'e'}}),
                                     Term::one_of({{'+', '+'}, {'-', '-'}}, 0, 1), digit('0', '9', 1, 3)}});
    return {{Term::one_of({{'-', '-'}}, 0, 1), Term::of_rule(whole), Term::of_rule(fraction, 0, 1),
             Term::of_rule(exponent, 0, 1)}};
  }
  const Decimal zero;
  Choices choices;
  if (!bounds.most || !bounds.most->negative) {
    Magnitude range;
    if (bounds.least && !bounds.least->negative) {
      range.least = *bounds.least;
      range.above = bounds.above_least;
    }
    range.most = bounds.most;
    range.below = bounds.below_most;
    append(choices, magnitudes(rules, range));
  }
  if (!bounds.least || bounds.least->negative) {
    Magnitude range;
    range.above = true;  // minus zero is not written
    if (bounds.most && bounds.most->negative) {
      range.least = bounds.most->magnitude();
      range.above = bounds.below_most;
    }
    if (bounds.least) range.most = bounds.least->magnitude();
    range.below = bounds.above_least;
    Choices negative = magnitudes(rules, range);
    if (!negative.empty()) choices.push_back({Term::literal("-"), Term::of_rule(rules.add(std::move(negative)))});
  }
  return choices;
}

std::optional<Choices> integer_multiples(RuleSet& rules, const NumberBounds& bounds, Int128 step) {
  if (bounds.least && bounds.most) {
    Int128 low = ceil_of(*bounds.least), high = floor_of(*bounds.most);
    if (bounds.above_least && bounds.least->integral()) ++low;
    if (bounds.below_most && bounds.most->integral()) --high;
    if ((high - low) / step > 1000) return std::nullopt;
    Choices choices;
    Int128 value = low / step * step;
    if (value < low) value += step;
    for (; value <= high; value += step) choices.push_back({Term::literal(to_digits(value))});
    return choices;
  }
  const bool nonnegative = bounds.least && !bounds.most && !bounds.least->negative && bounds.least->whole.empty() &&
                           bounds.least->integral() && !bounds.above_least;
  if ((bounds.bounded() && !nonnegative) || step > 100) return std::nullopt;
  // One rule a remainder: digits that bring it to zero.
  const int n = static_cast<int>(step);
  std::vector<int> remainder(static_cast<size_t>(n));
  for (int& rule : remainder) rule = rules.add();
  const auto digits_from = [&](int rest, char first) {
    Choices choices;
    for (char d = first; d <= '9'; ++d)
      choices.push_back({Term::literal(std::string(1, d)),
                         Term::of_rule(remainder[static_cast<size_t>((rest * 10 + (d - '0')) % n)])});
    return choices;
  };
  for (int rest = 0; rest < n; ++rest) {
    Choices choices = digits_from(rest, '0');
    if (rest == 0) choices.push_back({});
    rules.set(remainder[static_cast<size_t>(rest)], std::move(choices));
  }
  const int positive = rules.add(digits_from(0, '1'));
  Choices choices{{Term::literal("0")}, {Term::of_rule(positive)}};
  if (!nonnegative) choices.push_back({Term::literal("-"), Term::of_rule(positive)});
  return choices;
}

Choices decimals(RuleSet& rules, int places) {
  const int whole = rules.add({{Term::literal("0")}, {digit('1', '9'), digit('0', '9', 0, -1)}});
  Choices fraction{{}};
  if (places > 0) fraction.push_back({Term::literal("."), digit('0', '9', 1, places), digit('0', '0', 0, -1)});
  if (places == 0) fraction.push_back({Term::literal("."), digit('0', '0', 1, -1)});
  return {{Term::one_of({{'-', '-'}}, 0, 1), Term::of_rule(whole), Term::of_rule(rules.add(std::move(fraction)))}};
}

}  // namespace deepinfer
