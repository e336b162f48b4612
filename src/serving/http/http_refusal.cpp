#include "serving/http/http_refusal.h"

#include <array>

namespace deepinfer::serving {

std::string_view to_string(HttpRefusal refusal) {
  static constexpr std::array<std::string_view, kHttpRefusals> kNames = {
      "malformed",    "header_too_large", "body_too_large",       "body_memory",        "header_timeout",
      "body_timeout", "slow_reader",      "too_many_connections", "too_many_from_peer", "host_not_allowed",
      "draining",     "tls_handshake",    "no_descriptors"};
  return kNames[static_cast<std::size_t>(refusal)];
}

}  // namespace deepinfer::serving
