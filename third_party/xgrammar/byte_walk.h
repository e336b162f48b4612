// ByteWalk: one way through the automata of a grammar's rules, byte by byte, for making token masks.  Where it takes a
// whole token the parser takes it too, which then need not be asked: what is in most tokens of a mask inside a string.
// Included by the library's file that makes masks (CMakeLists.txt, change 10).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "grammar_impl.h"

namespace xgrammar {

class ByteWalk {
 public:
  // From a state of a rule's automaton.  The grammar outlives it.
  ByteWalk(const Grammar& grammar, int32_t rule, int32_t state) : grammar_(grammar) { Place({rule, state}); }

  // True: the parser takes all bytes from here.  False: it may or may not.
  bool Takes(const std::string& token) {
    int32_t place = 0;
    for (const char c : token) {
      const auto byte = static_cast<uint8_t>(c);
      int16_t next = next_[place][byte];
      if (next == kUnknown) {
        next = Step(states_[place].first, states_[place].second, byte, 0);
        next_[place][byte] = next;
      }
      if (next == kNowhere) return false;
      place = next;
    }
    return true;
  }

 private:
  static constexpr int16_t kUnknown = -2, kNowhere = -1;
  static constexpr int kMostDepth = 8;  // of rules that begin with rules
  static constexpr std::size_t kMostPlaces = 1024;

  // Along the first edge with this byte; else into the rules that may begin here.  A way out of a rule is not looked
  // for.
  int16_t Step(int32_t rule, int32_t state, uint8_t byte, int depth) {
    const auto& automaton = grammar_->per_rule_fsms[rule];
    if (!automaton.has_value() || depth > kMostDepth) return kNowhere;
    const auto& edges = automaton->GetFsm().GetFsm().GetEdges(state);
    for (const auto& edge : edges)
      if (edge.IsCharRange() && edge.min <= byte && byte <= edge.max) return Place({rule, edge.target});
    for (const auto& edge : edges) {
      int16_t next = kNowhere;
      if (edge.IsEpsilon()) {
        next = Step(rule, edge.target, byte, depth + 1);
      } else if (edge.IsRuleRef()) {
        const int32_t other = edge.GetRefRuleId();
        const auto& begun = grammar_->per_rule_fsms[other];
        if (begun.has_value()) next = Step(other, begun->GetFsm().GetStart(), byte, depth + 1);
      }
      if (next != kNowhere) return next;
    }
    return kNowhere;
  }

  int16_t Place(const std::pair<int32_t, int32_t>& state) {
    for (std::size_t i = states_.size(); i-- > 0;)
      if (states_[i] == state) return static_cast<int16_t>(i);
    if (states_.size() == kMostPlaces) return kNowhere;
    states_.push_back(state);
    next_.emplace_back().fill(kUnknown);
    return static_cast<int16_t>(states_.size() - 1);
  }

  const Grammar& grammar_;
  std::vector<std::pair<int32_t, int32_t>> states_;  // rule, state of its automaton
  std::vector<std::array<int16_t, 256>> next_;       // place behind a byte
};

}  // namespace xgrammar
