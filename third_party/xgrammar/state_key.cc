// EarleyParser::StateKey: what a parser's next mask depends on, as numbers.  Compiled into the library (CMakeLists.txt,
// change 5); used by src/grammar, which remembers masks by it.
#include <algorithm>
#include <utility>

#include "earley_parser.h"

namespace xgrammar {
namespace {

// What the count of a repetition still means to one token: how many more are needed before it may end, how many there
// may be.  A token completes at most one for each of its bytes, so that more than `bytes` are as good as any number.
std::pair<int32_t, int32_t> CountsLeft(const Grammar& grammar, const ParserState& state, int32_t bytes) {
  const std::pair<int32_t, int32_t> as_it_is{state.repeat_count, -1};
  if (state.rule_id == -1 || !grammar->per_rule_fsms[state.rule_id].has_value()) return as_it_is;
  for (const auto& edge : grammar->per_rule_fsms[state.rule_id]->GetFsm().GetFsm().GetEdges(state.element_id)) {
    if (!edge.IsRepeatRef()) continue;
    auto info = grammar->complete_fsm.GetRepeatEdgeInfo(edge.GetAuxIndex());
    const auto& may_be_empty = grammar->allow_empty_rule_ids;
    if (std::binary_search(may_be_empty.begin(), may_be_empty.end(), info.RuleId())) return as_it_is;
    return {std::clamp(info.Lower() - state.repeat_count, 0, bytes + 1),
            std::clamp(info.Upper() - state.repeat_count, 0, bytes + 1)};
  }
  return as_it_is;
}

}  // namespace

// The parser looks back from a state to where its rule began only through the states that wait there for that rule.
// Which position of the input that is does not matter: pairs of position and rule are numbered as they are met.  So two
// keys are equal only when the parsers are the same but for these numbers and for counts that no token of at most
// `longest_token` bytes can tell apart, and then so are the masks.
bool EarleyParser::StateKey(std::vector<int32_t>* key, std::size_t limit, int32_t longest_token) const {
  key->clear();
  std::vector<std::pair<int32_t, int32_t>> places;  // position where a rule began, rule
  bool known = true;
  const auto number = [&](const ParserState& state) -> int32_t {
    if (state.rule_start_pos == ParserState::kNoPrevInputPos) return -1;
    const std::pair<int32_t, int32_t> place{state.rule_start_pos, state.rule_id};
    for (std::size_t i = places.size(); i-- > 0;)
      if (places[i] == place) return static_cast<int32_t>(i);
    places.push_back(place);
    return static_cast<int32_t>(places.size() - 1);
  };
  const auto add = [&](const ParserState& state) {
    known = known && state.rule_id != -1;  // outside of automata: not met here
    const std::pair<int32_t, int32_t> counts = CountsLeft(grammar_, state, longest_token);
    for (const int32_t part : {state.rule_id, state.sequence_id, state.element_id, state.sub_element_id, counts.first,
                               counts.second, state.partial_codepoint, number(state)})
      key->push_back(part);
  };
  key->push_back(IsCompleted() ? 1 : 0);
  for (const auto& state : scanable_state_history_[scanable_state_history_.size() - 1]) add(state);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::pair<int32_t, int32_t> place = places[i];
    key->push_back(-2);  // no state begins so
    for (const auto& [rule, waiting] : rule_id_to_completable_states_[place.first])
      if (rule == place.second) add(waiting);
    if (!known || key->size() > limit) return false;
  }
  return known && key->size() <= limit;
}

}  // namespace xgrammar
