// Ten thousand clients that leave at any point: descriptors, threads and memory are as before.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <thread>

#include "held_exchanges.h"
#include "raw_client.h"

namespace deepinfer::serving {
namespace {

using testing::event_stream;
using testing::eventually;
using testing::open_server;
using testing::RawClient;

long entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator{});
}

long resident_kilobytes() {
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * (::sysconf(_SC_PAGESIZE) / 1024);
}

TEST(HttpAbort, TenThousandAbortedRequestsLeaveNothing) {
  // Answers on a thread of its own, as an engine does: some at once, some as a stream that ends, some as one that does
  // not, some never.
  testing::HeldExchanges held;
  std::atomic<int> answered{0}, gone{0};
  const auto server = open_server({}, held.handler());
  std::atomic<bool> ends{false};
  std::thread answers([&] {
    for (int i = 0; !ends; ++i) {
      auto exchange = held.next();
      if (!exchange) continue;
      ++answered;
      exchange->on_client_gone([&gone, exchange] { ++gone; });  // a ring that the end of the request breaks
      if (i % 4 == 0) exchange->respond({});
      if (i % 4 == 1 || i % 4 == 2) {
        exchange->begin_stream(event_stream());
        exchange->set_heartbeat(": \n\n");
        exchange->write("data: " + std::string(2000, 'x') + "\n\n");
        if (i % 4 == 1) exchange->end_stream();
      }
    }
  });
  std::mt19937 random(1);
  const std::string message = "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 3000\r\n\r\n" + std::string(3000, 'x');
  const auto abort_some = [&](int count) {
    for (int i = 0; i < count; ++i) {
      RawClient client = RawClient::to_port(server->ports()[0]);
      ASSERT_TRUE(client.connected());
      const bool whole = random() % 2 == 0;
      client.send(message.substr(0, whole ? message.size() : random() % message.size()));
      if (random() % 4 == 0) client.read_until("x", std::chrono::milliseconds(1));
      if (random() % 2 == 0) client.reset();
    }
    ASSERT_TRUE(eventually([&] { return server->stats().connections == 0 && server->stats().exchanges == 0; }));
    ASSERT_TRUE(eventually([&] { return server->stats().body_memory == 0; }));
  };
  abort_some(1000);
  const long descriptors = entries("/proc/self/fd"), threads = entries("/proc/self/task");
  const long memory = resident_kilobytes();
  abort_some(9000);
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
  EXPECT_EQ(entries("/proc/self/task"), threads);
  std::cout << "resident memory: " << memory << " kB after 1000 requests, " << resident_kilobytes()
            << " kB after 10000; " << answered << " reached the handler, " << gone << " left it\n";
#ifndef DEEPINFER_SANITIZED_BUILD  // whose allocator keeps what was freed
  EXPECT_LT(resident_kilobytes(), memory + 4096);
#endif
  ends = true;
  RawClient last = RawClient::to_port(server->ports()[0]);
  last.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
  answers.join();
}

}  // namespace
}  // namespace deepinfer::serving
