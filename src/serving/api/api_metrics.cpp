#include "serving/api/api_metrics.h"

#include <fmt/format.h>

#include <iterator>

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

ApiMetrics::ApiMetrics() : first_event_seconds(kFirstEventBounds) {}

void ApiMetrics::answered(std::string_view route, int status) {
  const std::lock_guard lock(mutex_);
  ++answered_[{std::string(route), status}];
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
  const std::lock_guard lock(mutex_);
  std::string out;
  const auto to = std::back_inserter(out);
  const auto head = [&](const char* name, const char* type, const char* help) {
    fmt::format_to(to, "# HELP deepinfer_{0} {2}\n# TYPE deepinfer_{0} {1}\n", name, type, help);
  };
  head("http_requests_total", "counter", "Requests that were answered, by route and status.");
  for (const auto& [key, count] : answered_)
    fmt::format_to(to, "deepinfer_http_requests_total{{route=\"{}\",status=\"{}\"}} {}\n", key.first, key.second,
                   count);
  head("http_requests_in_flight", "gauge", "Requests in the engine or on their way into it.");
  fmt::format_to(to, "deepinfer_http_requests_in_flight {}\n", in_flight.value());
  head("ignored_fields_total", "counter", "Fields of requests that had no effect, by name.");
  for (const auto& [name, count] : ignored_)
    fmt::format_to(to, "deepinfer_ignored_fields_total{{field=\"{}\"}} {}\n", name, count);
  head("http_first_event_seconds", "histogram",
       "Arrival of a request to the first token that was given to its connection.");
  int64_t below = 0;
  const auto bounds = first_event_seconds.bounds();
  for (size_t i = 0; i < bounds.size(); ++i) {
    below += first_event_seconds.bucket(i);
    fmt::format_to(to, "deepinfer_http_first_event_seconds_bucket{{le=\"{}\"}} {}\n", bounds[i], below);
  }
  below += first_event_seconds.bucket(bounds.size());
  fmt::format_to(to, "deepinfer_http_first_event_seconds_bucket{{le=\"+Inf\"}} {}\n", below);
  fmt::format_to(to, "deepinfer_http_first_event_seconds_sum {}\n", first_event_seconds.sum());
  fmt::format_to(to, "deepinfer_http_first_event_seconds_count {}\n", below);
  return out;
}

}  // namespace deepinfer::serving
