#include "scheduling/sequence.h"

#include <bit>
#include <type_traits>
#include <utility>

namespace deepinfer {

int64_t Sequence::logits_from() const {
  if (request.logits_from >= 0 && answer_tokens() == 0) return request.logits_from;
  return known() - 1;
}

int64_t Sequence::written() const {
  if (const auto* prefilling = std::get_if<Prefilling>(&state)) return prefilling->planned;
  // The newest token has no record yet.  (While the last chunk is in flight its last row is left out: one too few.)
  if (std::holds_alternative<Decoding>(state)) return known() - 1;
  return 0;
}

const Residence* residence(const SequenceState& state) {
  return std::visit(
      [](const auto& s) -> const Residence* {
        if constexpr (std::is_same_v<std::decay_t<decltype(s)>, Waiting>) {
          return nullptr;
        } else {
          return &s.home;
        }
      },
      state);
}

int size_class(int64_t rows, int64_t step_rows) {
  return static_cast<int>(std::bit_width(static_cast<uint64_t>((rows - 1) / step_rows)));
}

Residence* residence(SequenceState& state) {
  return const_cast<Residence*>(residence(std::as_const(state)));
}

Decoding last_chunk_planned(Prefilling&& from) {
  return {.home = std::move(from.home), .plans = 1, .assumed = 1};
}

Yielding preempted(const Sequence& sequence, Prefilling&& from) {
  return {.home = std::move(from.home), .written = sequence.written(), .prefill_logits_from = from.logits_from};
}

Yielding preempted(const Sequence& sequence, Decoding&& from) {
  return {.home = std::move(from.home), .written = sequence.written(), .prefill_logits_from = std::nullopt};
}

Ending ended(const Sequence& sequence, Prefilling&& from, EndReason reason) {
  return {.home = std::move(from.home),
          .written = sequence.written(),
          .prefill_logits_from = from.logits_from,
          .reason = reason};
}

Ending ended(const Sequence& sequence, Decoding&& from, EndReason reason) {
  return {.home = std::move(from.home),
          .written = sequence.written(),
          .prefill_logits_from = std::nullopt,
          .reason = reason};
}

Ending ended(const Sequence&, Yielding&& from, EndReason reason) {
  return {.home = std::move(from.home),
          .written = from.written,
          .prefill_logits_from = from.prefill_logits_from,
          .reason = reason};
}

}  // namespace deepinfer
