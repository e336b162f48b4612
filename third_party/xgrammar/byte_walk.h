// ByteWalk: one way through the automata of a grammar's rules, byte by byte, for making token masks.  Where it takes a
// whole token the parser takes it too, and where there is no other way and it comes to the rule's end within the token,
// only the parser of an answer can tell: the parser that makes the mask need not be asked.  That is most of a mask inside
// a string.
// Included by the library's file that makes masks (CMakeLists.txt, change 10).
#pragma once

#include <algorithm>
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
  ByteWalk(const Grammar& grammar, int32_t rule, int32_t state)
      : grammar_(grammar),
        first_rule_(rule),
        rounds_(Rounds(rule)),
        may_leave_(grammar->GetRule(rule).lookahead_assertion_id == -1) {
    Place({rule, state, 0});
  }

  enum class Outcome {
    kTaken,       // the parser takes all bytes from here
    kTakenAhead,  // the same, by the rule's lookahead
    kLeaves,      // the rule ends within the token, and nothing is known of what follows it
    kUnknown,
  };
  Outcome Along(const std::string& token) {
    int32_t place = 0;
    bool ends = false, only_way = only_way_[place] != 0;
    for (const char c : token) {
      const auto byte = static_cast<uint8_t>(c);
      int16_t next = next_[place][byte];
      if (next == kNotLooked) {
        const State from = states_[place];
        next = Step(from, byte, 0);
        next_[place][byte] = next;
      }
      if (next == kNowhere) return ends && only_way && may_leave_ ? Outcome::kLeaves : Outcome::kUnknown;
      place = next;
      ends = ends || ends_[place] != 0;
      only_way = only_way && only_way_[place] != 0;
    }
    return states_[place].round > 0 ? Outcome::kTakenAhead : Outcome::kTaken;
  }

 private:
  struct State {
    int32_t rule = 0;
    int32_t state = 0;  // of its automaton
    int32_t round = 0;  // of the first rule
  };
  static constexpr int16_t kNotLooked = -2, kNowhere = -1;
  static constexpr int kMostDepth = 8;  // of rules that begin with rules
  static constexpr std::size_t kMostPlaces = 1024;

  // How often a rule of one element surely comes: as often as its exact lookahead has this element, which leaves the
  // last one out.  1: once.
  int32_t Rounds(int32_t id) const {
    const auto& rule = grammar_->GetRule(id);
    if (!rule.is_exact_lookahead || rule.lookahead_assertion_id == -1) return 1;
    const auto choices = grammar_->GetGrammarExpr(rule.body_expr_id);
    if (choices.type != Grammar::Impl::GrammarExprType::kChoices || choices.size() != 1) return 1;
    const auto sequence = grammar_->GetGrammarExpr(choices[0]);
    if (sequence.type != Grammar::Impl::GrammarExprType::kSequence || sequence.size() != 1) return 1;
    const auto element = grammar_->GetGrammarExpr(sequence[0]);
    if (element.type != Grammar::Impl::GrammarExprType::kCharacterClass) return 1;
    const auto ahead = grammar_->GetGrammarExpr(rule.lookahead_assertion_id);
    for (int32_t i = 0; i < ahead.size(); ++i) {
      const auto other = grammar_->GetGrammarExpr(ahead[i]);
      if (other.type != element.type || other.size() != element.size() ||
          !std::equal(element.begin(), element.end(), other.begin()))
        return 1;
    }
    return std::max<int32_t>(ahead.size(), 1);
  }

  // Along the first edge with this byte; else into the rules that may begin here, or into the next round.  A way out of
  // a rule is not looked for.
  int16_t Step(State from, uint8_t byte, int depth) {
    const auto& automaton = grammar_->per_rule_fsms[from.rule];
    if (!automaton.has_value() || depth > kMostDepth) return kNowhere;
    const auto& edges = automaton->GetFsm().GetFsm().GetEdges(from.state);
    for (const auto& edge : edges)
      if (edge.IsCharRange() && edge.min <= byte && byte <= edge.max)
        return Place({from.rule, edge.target, from.round});
    for (const auto& edge : edges) {
      int16_t next = kNowhere;
      if (edge.IsEpsilon()) {
        next = Step({from.rule, edge.target, from.round}, byte, depth + 1);
      } else if (edge.IsRuleRef()) {
        const int32_t other = edge.GetRefRuleId();
        const auto& begun = grammar_->per_rule_fsms[other];
        if (begun.has_value()) next = Step({other, begun->GetFsm().GetStart(), 0}, byte, depth + 1);
      }
      if (next != kNowhere) return next;
    }
    if (from.rule == first_rule_ && from.round + 1 < rounds_ && automaton->GetFsm().IsEndState(from.state))
      return Step({from.rule, automaton->GetFsm().GetStart(), from.round + 1}, byte, depth + 1);
    return kNowhere;
  }

  int16_t Place(const State& state) {
    for (std::size_t i = states_.size(); i-- > 0;)
      if (states_[i].rule == state.rule && states_[i].state == state.state && states_[i].round == state.round)
        return static_cast<int16_t>(i);
    if (states_.size() == kMostPlaces) {
      may_leave_ = false;  // it is not known any more whether a way ends
      return kNowhere;
    }
    states_.push_back(state);
    const auto& automaton = grammar_->per_rule_fsms[state.rule];
    ends_.push_back(automaton.has_value() && automaton->GetFsm().IsEndState(state.state));
    only_way_.push_back(automaton.has_value() && OnlyWay(automaton->GetFsm().GetFsm().GetEdges(state.state)));
    next_.emplace_back().fill(kNotLooked);
    return static_cast<int16_t>(states_.size() - 1);
  }

  // No byte has two edges, and nothing but bytes goes on from here.
  template <typename Edges>
  static bool OnlyWay(const Edges& edges) {
    std::array<bool, 256> taken{};
    for (const auto& edge : edges) {
      if (!edge.IsCharRange()) return false;
      for (int32_t byte = edge.min; byte <= edge.max; ++byte)
        if (byte < 0 || byte > 255 || std::exchange(taken[byte], true)) return false;
    }
    return true;
  }

  const Grammar& grammar_;
  const int32_t first_rule_;
  const int32_t rounds_;
  bool may_leave_;
  std::vector<State> states_;
  std::vector<uint8_t> ends_;                   // the rule may end here
  std::vector<uint8_t> only_way_;
  std::vector<std::array<int16_t, 256>> next_;  // place behind a byte
};

}  // namespace xgrammar
