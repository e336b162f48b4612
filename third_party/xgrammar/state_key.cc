// EarleyParser::StateKey: what a parser's future depends on, as numbers.  Compiled into the library (CMakeLists.txt,
// change 5); used by src/grammar, which remembers masks by it.
#include <utility>

#include "earley_parser.h"

namespace xgrammar {

// The parser looks back from a state to where its rule began only through the states that wait there for that rule.
// Which position of the input that is does not matter: pairs of position and rule are numbered as they are met, so two
// keys are equal exactly when the parsers are the same but for these numbers, and then all that follows is the same.
bool EarleyParser::StateKey(std::vector<int32_t>* key, std::size_t limit) const {
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
    for (const int32_t part : {state.rule_id, state.sequence_id, state.element_id, state.sub_element_id,
                               state.repeat_count, state.partial_codepoint, number(state)})
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
