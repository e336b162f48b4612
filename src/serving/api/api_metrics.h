// ApiMetrics: what the routes count, and its text for Prometheus.  Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "engine/metrics/metric.h"

namespace deepinfer::serving {

class ApiMetrics {
 public:
  ApiMetrics();

  // route: of the table of routes, never a client's text.
  // key: the name of the key, empty without one.
  void answered(std::string_view route, int status, std::string_view key = {});
  void ignored(const std::vector<std::string>& fields);

  Gauge in_flight;                // requests in the engine or on their way into it
  Counter events;                 // of streams
  Histogram first_event_seconds;  // from the request's arrival to the first event with a token

  // For Prometheus (engine/metrics/exposition.h).
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::tuple<std::string, int, std::string>, int64_t> answered_;
  std::map<std::string, int64_t> ignored_;  // a bounded number of names
};

// A client's text as a name in a header or label: letters, digits, "_", "-" and "." stay, at most 64 of them.
std::string plain_name(std::string_view text);
// The value of the header deepinfer-ignored: the first of these names.
std::string ignored_header(const std::vector<std::string>& fields);

}  // namespace deepinfer::serving
