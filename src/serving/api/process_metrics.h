// What the system says of this process, with the names that Prometheus gives it everywhere.  Read from /proc when it is
// asked for; what cannot be read is left out.
#pragma once

#include <string>

namespace deepinfer::serving {

std::string process_metrics_text();

}  // namespace deepinfer::serving
