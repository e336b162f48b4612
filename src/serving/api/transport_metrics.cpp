#include "serving/api/transport_metrics.h"

#include "engine/metrics/exposition.h"

namespace deepinfer::serving {

std::string transport_metrics_text(const HttpServerStats& stats) {
  Exposition out;
  const auto value = [](std::uint64_t count) { return static_cast<int64_t>(count); };
  out.gauge("deepinfer_transport_connections", "Open connections.", value(stats.connections));
  out.counter("deepinfer_transport_connections_total", "Connections accepted.", value(stats.accepted));
  out.counter("deepinfer_transport_requests_total", "Requests read and handed to a route.", value(stats.requests));
  out.gauge("deepinfer_transport_exchanges", "Requests that are not fully answered.", value(stats.exchanges));
  out.gauge("deepinfer_transport_body_memory_bytes", "Bodies of requests that are read or answered.",
            value(stats.body_memory));
  out.counter("deepinfer_transport_clients_left_total", "Clients that left before they had the whole answer.",
              value(stats.clients_left));
  out.counter("deepinfer_transport_received_bytes_total", "Bytes received.", value(stats.bytes_received));
  out.counter("deepinfer_transport_sent_bytes_total", "Bytes sent.", value(stats.bytes_sent));
  out.counter("deepinfer_transport_sends_total", "Calls of the system that sent something.", value(stats.writes));
  out.begin_counter("deepinfer_transport_refusals_total",
                    "Requests and connections that the transport refused or cut, by reason.");
  for (std::size_t i = 0; i < kHttpRefusals; ++i)
    out.sample(value(stats.refusals[i]), {{"reason", to_string(static_cast<HttpRefusal>(i))}});
  return out.take();
}

}  // namespace deepinfer::serving
