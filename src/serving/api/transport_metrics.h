// The transport's counters as Prometheus text, for a /metrics route.
#pragma once

#include <string>

#include "serving/http/http_server.h"

namespace deepinfer::serving {

// "# HELP deepinfer_transport_connections ..." and so on, a line feed behind each line.
std::string transport_metrics_text(const HttpServerStats& stats);

}  // namespace deepinfer::serving
