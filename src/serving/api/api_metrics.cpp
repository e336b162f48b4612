#include "serving/api/api_metrics.h"

#include "engine/metrics/exposition.h"

namespace deepinfer::serving {
namespace {

constexpr double kFirstEventBounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                        1,     2.5,    5,     10,   25,    50,   100, 250};
constexpr size_t kMostNames = 64;

}  // namespace

std::string plain_name(std::string_view text) {
  constexpr size_t kLongest = 64;
  std::string name(text.substr(0, kLongest));
  for (char& c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    if (!plain) c = '_';
  }
  return name;
}

std::string ignored_header(const std::vector<std::string>& fields) {
  constexpr size_t kMostShown = 32;
  std::string value;
  for (size_t i = 0; i < fields.size() && i < kMostShown; ++i)
    value.append(i == 0 ? "" : ", ").append(plain_name(fields[i]));
  return value;
}

ApiMetrics::ApiMetrics() : first_event_seconds(kFirstEventBounds) {}

void ApiMetrics::answered(std::string_view route, int status, std::string_view key) {
  const std::lock_guard lock(mutex_);
  ++answered_[{std::string(route), status, std::string(key)}];
}

void ApiMetrics::ignored(const std::vector<std::string>& fields) {
  const std::lock_guard lock(mutex_);
  for (const std::string& field : fields) {
    const std::string name = plain_name(field);
    const bool room = ignored_.size() < kMostNames || ignored_.contains(name);
    ++ignored_[room ? name : "other"];
  }
}

std::string ApiMetrics::text() const {
  Exposition out;
  const std::lock_guard lock(mutex_);
  out.begin_counter("deepinfer_http_requests_total",
                    "Requests that were answered, by route, status and name of the key; 499: the client had left.");
  for (const auto& [labels, count] : answered_) {
    const auto& [route, status, key] = labels;
    out.sample(count, {{"route", route}, {"status", std::to_string(status)}, {"key", key}});
  }
  out.gauge("deepinfer_http_requests_in_flight", "Requests in the engine or on their way into it.", in_flight.value());
  out.begin_counter("deepinfer_ignored_fields_total", "Fields of requests that had no effect, by name.");
  for (const auto& [name, count] : ignored_) out.sample(count, {{"field", name}});
  out.counter("deepinfer_stream_events_total", "Events of streams.", events.value());
  out.histogram("deepinfer_http_first_event_seconds",
                "Arrival of a request to the first token that was given to its connection.", first_event_seconds);
  return out.take();
}

}  // namespace deepinfer::serving
