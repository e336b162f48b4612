// A strict reader of Prometheus's text format 0.0.4, for tests: whatever breaks a rule of the format, or one that
// counters and histograms have, is a failure that names the line.
#pragma once

#include <map>
#include <string>

namespace deepinfer::serving {

struct MetricFamily {
  std::string type;  // counter, gauge, histogram
  std::string help;
  int samples = 0;
};

// The families by name.  Fails the test where the text is none of this format.
std::map<std::string, MetricFamily> checked_exposition(const std::string& text);

}  // namespace deepinfer::serving
