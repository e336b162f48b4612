#include "engine/request_log/logged_request.h"

#include <array>

#include "engine/tiers/tier_identity.h"

namespace deepinfer {
namespace {

// In the order of EndReason.
constexpr std::array kReasons = {"stop", "length", "cancelled", "deadline", "error"};

}  // namespace

const char* to_string(EndReason reason) {
  return kReasons[static_cast<size_t>(reason)];
}

std::optional<EndReason> parse_end_reason(std::string_view name) {
  for (size_t i = 0; i < kReasons.size(); ++i) {
    if (name == kReasons[i]) return static_cast<EndReason>(i);
  }
  return std::nullopt;
}

const char* to_string(DraftSchedule schedule) {
  switch (schedule) {
    case DraftSchedule::kAll:
      return "all";
    case DraftSchedule::kCausal:
      return "causal";
    case DraftSchedule::kLagged:
      return "lagged";
    case DraftSchedule::kFresh:
      return "fresh";
  }
  return "?";
}

Result<RequestLogHeader> request_log_header(const Engine& engine, const EngineOptions& opened, const std::string& build,
                                            const std::string& model_name) {
  RequestLogHeader header;
  header.build = build;
  DI_ASSIGN_OR_RETURN(header.program, program_checksum());
  header.backend = engine.backend_name();
  header.model_name = model_name;
  DI_ASSIGN_OR_RETURN(header.model, model_contents_checksum(opened.model));
  header.max_context = engine.max_context();
  header.cache_bytes = opened.cache_bytes;
  header.max_sequences = opened.max_sequences;
  header.step_rows = opened.step_rows;
  header.decode_latency_ms = opened.decode_latency.count();
  header.prefix_cache = opened.prefix_cache;
  header.early_snapshot_interval = opened.early_snapshot_interval;
  header.draft_schedule = to_string(opened.draft_schedule);
  return header;
}

}  // namespace deepinfer
