#include "serving/http/transport_metrics.h"

#include <fmt/format.h>

#include <iterator>

namespace deepinfer::serving {

std::string transport_metrics_text(const HttpServerStats& stats) {
  std::string text;
  const auto head = [&](std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(text), "# HELP deepinfer_transport_{0} {2}\n# TYPE deepinfer_transport_{0} {1}\n",
                   name, type, help);
  };
  const auto add = [&](std::string_view name, std::string_view type, std::string_view help, std::uint64_t value) {
    head(name, type, help);
    fmt::format_to(std::back_inserter(text), "deepinfer_transport_{} {}\n", name, value);
  };
  add("connections", "gauge", "Open connections.", stats.connections);
  add("connections_total", "counter", "Connections accepted.", stats.accepted);
  add("requests_total", "counter", "Requests read and handed to a route.", stats.requests);
  add("exchanges", "gauge", "Requests that are not fully answered.", stats.exchanges);
  add("body_memory_bytes", "gauge", "Bodies of requests that are read or answered.", stats.body_memory);
  add("clients_left_total", "counter", "Clients that left before they had the whole answer.", stats.clients_left);
  add("received_bytes_total", "counter", "Bytes received.", stats.bytes_received);
  add("sent_bytes_total", "counter", "Bytes sent.", stats.bytes_sent);
  add("sends_total", "counter", "Calls of the system that sent something.", stats.writes);
  head("refusals_total", "counter", "Requests and connections that the transport refused or cut, by reason.");
  for (std::size_t i = 0; i < kHttpRefusals; ++i) {
    fmt::format_to(std::back_inserter(text), "deepinfer_transport_refusals_total{{reason=\"{}\"}} {}\n",
                   to_string(static_cast<HttpRefusal>(i)), stats.refusals[i]);
  }
  return text;
}

}  // namespace deepinfer::serving
