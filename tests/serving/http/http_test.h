// HttpTest: the fixture of tests that talk to one server over its port; its handler's answers are held_exchanges.h.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "held_exchanges.h"
#include "raw_client.h"

namespace deepinfer::serving::testing {

inline constexpr const char* kGet = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
inline constexpr const char* kGetHeld = "GET /held HTTP/1.1\r\nHost: h\r\n\r\n";

class HttpTest : public ::testing::Test {
 protected:
  void open(HttpServerOptions options = {}) { server_ = open_server(std::move(options), held_.handler()); }
  RawClient connect(int receive_buffer_bytes = 0) {
    return RawClient::to_port(server_->ports()[0], receive_buffer_bytes);
  }

  HeldExchanges held_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace deepinfer::serving::testing
