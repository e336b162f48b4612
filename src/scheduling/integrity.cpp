// What must hold of StepScheduler between two calls.
#include <set>

#include "base/check.h"
#include "scheduling/step_scheduler.h"

namespace deepinfer {

void StepScheduler::check_integrity() const {
  cache_.check_integrity();
  check_requests();
}

bool StepScheduler::check_part(int64_t blocks) {
  check_requests();
  return cache_.check_part(blocks);
}

void StepScheduler::check_requests() const {
  // What the plans in flight say of each sequence.
  struct InFlight {
    int64_t plans = 0, assumed = 0;
    int retired = 0;
  };
  std::unordered_map<const Sequence*, InFlight> in_flight;
  std::set<BlockId> held;
  int64_t restoring_blocks = 0;
  for (int64_t i = 0; i < flights_.size(); ++i) {
    const Flight& flight = flights_[i];
    for (const Flight::Rows& rows : flight.rows) {
      in_flight[rows.sequence].plans += rows.assumed > 0 ? 1 : 0;
      in_flight[rows.sequence].assumed += rows.assumed;
    }
    for (const Sequence* sequence : flight.retirements) in_flight[sequence].retired += 1;
    for (const Flight::Save& save : flight.saves) {
      in_flight[save.sequence];
      held.insert(save.place.blocks.begin(), save.place.blocks.end());
    }
    for (const SnapshotPlace& place : flight.restores) {
      held.insert(place.blocks.begin(), place.blocks.end());
      restoring_blocks += static_cast<int64_t>(place.blocks.size());
    }
  }
  for (const Sequence* sequence : departing_) in_flight[sequence].retired += 1;

  int64_t waiting = 0, running = 0, yielding = 0, ending = 0, leaving_blocks = 0, deadlines = 0, known_in_flight = 0;
  std::set<int> slots;
  for (const auto& [id, owned] : sequences_) {
    const Sequence& sequence = *owned;
    DI_CHECK(id == sequence.request.id, "a sequence is found by its id");
    DI_CHECK(sequence.known() <= sequence.most_tokens, "no sequence is longer than its limit");
    const auto found = in_flight.find(&sequence);
    const InFlight flight = found == in_flight.end() ? InFlight{} : found->second;
    known_in_flight += found != in_flight.end();
    const bool has_ended = std::holds_alternative<Ending>(sequence.state);
    if (!has_ended && sequence.request.deadline != kNever) {
      DI_CHECK(deadlines_.contains({sequence.request.deadline, id}), "the deadline of a live request is known");
      ++deadlines;
    }

    const Residence* home = residence(sequence.state);
    if (home == nullptr) {
      DI_CHECK(waiting_.contains(sequence) && found == in_flight.end(), "what waits is queued and in no plan");
      ++waiting;
      continue;
    }
    const auto table = home->blocks.table();
    held.insert(table.begin(), table.end());
    DI_CHECK(slots.insert(home->blocks.state_slot()).second, "a state slot has one sequence");
    const bool leaves = has_ended || std::holds_alternative<Yielding>(sequence.state);
    DI_CHECK(flight.retired == (leaves ? 1 : 0), "what leaves is retired once, what runs is not");
    if (leaves) {
      ++(has_ended ? ending : yielding);
      leaving_blocks += static_cast<int64_t>(table.size());
      continue;
    }
    ++running;
    DI_CHECK(running_.contains(sequence), "what runs is in the running set");
    DI_CHECK(static_cast<int64_t>(table.size()) >= cache_.blocks_for(sequence.written()), "records have blocks");
    if (const auto* prefilling = std::get_if<Prefilling>(&sequence.state)) {
      DI_CHECK(prefilling->planned < sequence.known() && flight.plans == 0, "a prefill has rows left to plan");
    } else {
      const auto& decoding = std::get<Decoding>(sequence.state);
      DI_CHECK(decoding.plans == flight.plans && decoding.assumed == flight.assumed,
               "the tokens assumed are those of the plans in flight");
    }
  }
  DI_CHECK(known_in_flight == static_cast<int64_t>(in_flight.size()), "plans in flight name living sequences");
  DI_CHECK(waiting == waiting_.size() && running == running_.size() && yielding == yielding_ && ending == ending_,
           "the counters agree with the states");
  DI_CHECK(running <= config_.max_sequences, "no more run than may");
  DI_CHECK(leaving_blocks == leaving_blocks_ && restoring_blocks == restoring_blocks_,
           "blocks that are about to come back");
  DI_CHECK(deadlines == static_cast<int64_t>(deadlines_.size()), "deadlines are those of live requests");
  DI_CHECK(static_cast<int64_t>(slots.size()) + cache_.free_state_slots() == config_.cache.state_slots,
           "a state slot is free or has a sequence");
  DI_CHECK(static_cast<int64_t>(held.size()) == cache_.held_blocks(), "every held block has a holder here");
}

}  // namespace deepinfer
