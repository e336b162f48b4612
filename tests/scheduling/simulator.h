// A simulated engine: random requests, cancellations, storms of them, deadlines and faults of steps and of a tier below
// the pool drive a scheduler and a symbolic executor, and after every step everything is checked that must always hold
// (see simulator.cpp).  The same seed gives the same run.
#pragma once

#include <cstdint>
#include <string>

namespace deepinfer::testing {

class SimulatedTier;

struct SimulationReport {
  uint64_t trace = 0;  // a hash of all plans, results and ends
  int64_t steps = 0, tokens = 0;
  int64_t submitted = 0, refused = 0;
  int64_t stopped = 0, full_length = 0, cancelled = 0, overdue = 0, failed = 0;
  int64_t preemptions = 0, hits = 0, early_hits = 0, saves = 0, cached_tokens = 0, recomputed_tokens = 0;
  int64_t swapped_tokens = 0, tier_questions = 0, tier_found = 0, tier_late = 0, tier_without_room = 0;
  int64_t snapshots_left_out = 0;  // prompts whose last boundary got none, for want of room
  int64_t vacated = 0;             // times that all running sequences had to leave
  int64_t forgotten = 0;           // times that the pool, the tier or both had to forget their prefixes
  int64_t passes = 0;              // of the check in parts; they depend on check_every and are not printed

  void add_tier(const SimulatedTier& tier);
  SimulationReport& operator+=(const SimulationReport& other);
  std::string to_string() const;
};

// Runs so many steps, then until nothing is left.  Aborts when something is wrong and names seed and step.
// check_every: the complete check of scheduler and cache is made every so many steps.
SimulationReport simulate(uint64_t seed, int64_t steps, int64_t check_every);

}  // namespace deepinfer::testing
