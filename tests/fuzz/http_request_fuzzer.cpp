// Any bytes as an HTTP request, in any cuts (the first byte seeds them): no crash, one reading whatever the cuts, and
// what is accepted keeps its promises: one spelling of the path, clean fields, one framing, a body within the limit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "serving/http/request_reader.h"

namespace {

using namespace deepinfer::serving;
using Progress = RequestReader::Progress;

constexpr RequestLimits kLimits{{512, 8}, 256};

void require(bool condition) {
  if (!condition) std::abort();
}

struct Reading {
  Progress progress;
  int status = 0;
  std::string text;  // all of the request
  bool operator==(const Reading&) const = default;
};

void check_promises(RequestReader& reader) {
  const HttpRequest& request = reader.request();
  const std::string& path = request.path;
  require(!path.empty() && path.front() == '/' && (path == "/" || path.back() != '/'));
  require(path.find("//") == path.npos);
  require((path + "/").find("/../") == std::string::npos && (path + "/").find("/./") == std::string::npos);
  require(!request.method.empty() && request.method.size() <= 32);
  require(request.headers.size() <= kLimits.head.fields && request.body.size() <= kLimits.body_bytes);
  std::size_t lengths = 0, encodings = 0, hosts = 0;
  for (const auto& [name, value] : request.headers) {
    require(!name.empty());
    for (const char c : name) require(c > 0x20 && c < 0x7F && c != ':' && !(c >= 'A' && c <= 'Z'));
    for (const char c : value) require(static_cast<unsigned char>(c) >= 0x20 || c == '\t');
    lengths += name == "content-length";
    encodings += name == "transfer-encoding";
    hosts += name == "host";
  }
  require(lengths + encodings <= 1 && hosts <= 1);
  require(!reader.host().empty() || reader.http_1_0());
  if (lengths == 0 && encodings == 0) require(request.body.empty());
}

// seed 0: in one piece.
Reading read(std::string_view bytes, uint32_t seed) {
  RequestReader reader(kLimits);
  std::string kept;
  while (!bytes.empty() && (reader.progress() == Progress::kHead || reader.progress() == Progress::kBody)) {
    seed = seed * 1664525u + (seed != 0 ? 1013904223u : 0);
    const std::size_t size = seed == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 1 + (seed >> 28));
    kept.append(bytes.substr(0, size));
    bytes.remove_prefix(size);
    const std::size_t used = reader.read(kept);
    require(used <= kept.size());
    kept.erase(0, used);
  }
  Reading reading;
  reading.progress = reader.progress();
  if (reading.progress == Progress::kRefused) {
    reading.status = reader.error().status;
    require(reading.status >= 400 && !reader.error().message.empty());
    return reading;
  }
  if (reading.progress == Progress::kHead) return reading;
  check_promises(reader);
  const HttpRequest& request = reader.request();
  reading.text = request.method + ' ' + request.path + '?' + request.query + '\n';
  for (const auto& [name, value] : request.headers) reading.text += name + ':' + value + '\n';
  reading.text += request.body;
  if (reading.progress == Progress::kComplete) reading.text += "\nrest " + kept + std::string(bytes);
  return reading;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  require(read(bytes, 0) == read(bytes, data[0] + 1u));
  return 0;
}
