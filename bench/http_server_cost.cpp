// What the transport costs: processor time of the server's process for an event of a stream and for a request, and
// memory of connections that rest.  The clients are another process, so that getrusage sees the server alone.
//
//   http_server_cost [streams=64] [rounds=2000] [idle=2000]
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "serving/http/http_server.h"
#include "tests/serving/http/raw_client.h"

namespace {

using namespace deepinfer::serving;
using deepinfer::serving::testing::RawClient;
using std::chrono::milliseconds;

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double resident_megabytes() {
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

class Streams {
 public:
  void add(std::shared_ptr<HttpExchange> exchange) {
    HttpResponse head;
    head.content_type = "text/event-stream";
    exchange->begin_stream(std::move(head));
    const std::lock_guard lock(mutex_);
    streams_.push_back(std::move(exchange));
    changed_.notify_all();
  }
  std::vector<std::shared_ptr<HttpExchange>> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return streams_.size() >= count; });
    return std::move(streams_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<HttpExchange>> streams_;
};

// Clients: a byte on `from` starts each part, a byte on `to` ends it.
void run_clients(int from, int to, std::size_t streams, std::size_t requests, std::size_t idle) {
  int port = 0;
  char byte = 0;
  const auto step = [&] { return read(from, &byte, 1) == 1; };
  if (read(from, &port, sizeof port) != sizeof port) std::_Exit(1);
  const auto open = [&](std::size_t count) {
    std::vector<RawClient> clients;
    for (std::size_t i = 0; i < count; ++i) {
      clients.push_back(RawClient::to_port(port));
      clients.back().send("POST /stream HTTP/1.1\r\nHost: h\r\nContent-Length: 300\r\n\r\n" + std::string(300, 'x'));
    }
    return clients;
  };
  {
    std::vector<RawClient> clients = open(streams);
    std::vector<std::thread> readers;
    for (const RawClient& client : clients)  // which only count, so that the machine is the server's
      readers.emplace_back([fd = client.fd()] {
        std::vector<char> buffer(1 << 16);
        const std::string_view last = "0\r\n\r\n";
        for (;;) {
          const ssize_t got = read(fd, buffer.data(), buffer.size());
          if (got <= 0 || std::string_view(buffer.data(), static_cast<std::size_t>(got)).ends_with(last)) return;
        }
      });
    for (std::thread& reader : readers) reader.join();
  }
  (void)!write(to, &byte, 1);
  step();
  {
    RawClient client = RawClient::to_port(port);
    for (std::size_t i = 0; i < requests; ++i) {
      client.send("POST /quick HTTP/1.1\r\nHost: h\r\nContent-Length: 300\r\n\r\n" + std::string(300, 'x'));
      client.read_response();
    }
  }
  (void)!write(to, &byte, 1);
  step();
  const std::vector<RawClient> resting = open(idle);
  step();
  std::_Exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, long otherwise) {
    return static_cast<std::size_t>(argc > i ? std::atol(argv[i]) : otherwise);
  };
  const std::size_t streams = argument(1, 64), rounds = argument(2, 2000), idle = argument(3, 2000);
  constexpr std::size_t kRequests = 5000;
  int to_clients[2], from_clients[2];
  if (pipe(to_clients) != 0 || pipe(from_clients) != 0) return 1;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const pid_t clients = fork();
  if (clients == 0) run_clients(to_clients[0], from_clients[1], streams, kRequests, idle);

  Streams begun;
  HttpServerOptions options;
  options.listeners.emplace_back();
  const auto server = HttpServer::open(options, [&](std::shared_ptr<HttpExchange> exchange) {
    if (exchange->request().path == "/stream") return begun.add(std::move(exchange));
    HttpResponse response;
    response.body = "{\"object\":\"list\",\"data\":[]}";
    exchange->respond(std::move(response));
  });
  if (!server.ok()) return std::fprintf(stderr, "%s\n", server.status().to_string().c_str()), 1;
  const int port = (*server)->ports()[0];
  char byte = 0;
  (void)!write(to_clients[1], &port, sizeof port);

  const std::string event = "data: " + std::string(190, 'x') + "\n\n";
  auto all = begun.wait_for(streams);
  double before = processor_seconds();
  auto writes_before = (*server)->stats().writes;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (const auto& stream : all) stream->write(event);
    std::this_thread::sleep_for(milliseconds(2));
  }
  const double events = static_cast<double>(streams * rounds);
  std::printf("%zu streams, %zu events of %zu bytes each: %.2f us of processor an event, %.2f sends an event\n",
              streams, rounds, event.size(), 1e6 * (processor_seconds() - before) / events,
              static_cast<double>((*server)->stats().writes - writes_before) / events);
  for (const auto& stream : all) stream->end_stream();
  all.clear();
  (void)!read(from_clients[0], &byte, 1);

  before = processor_seconds();
  (void)!write(to_clients[1], &byte, 1);
  (void)!read(from_clients[0], &byte, 1);
  std::printf("requests of 300 bytes on one connection: %.1f us of processor a request\n",
              1e6 * (processor_seconds() - before) / kRequests);

  const double memory = resident_megabytes();
  (void)!write(to_clients[1], &byte, 1);
  all = begun.wait_for(idle);
  for (const auto& stream : all) {
    stream->set_heartbeat(": \n\n");
    stream->write(event);
  }
  std::this_thread::sleep_for(milliseconds(1000));
  std::printf("%zu streams that rest: %.1f MB more\n", idle, resident_megabytes() - memory);
  before = processor_seconds();
  std::this_thread::sleep_for(milliseconds(3000));
  std::printf("  and %.2f %% of a processor meanwhile\n", 100 * (processor_seconds() - before) / 3);
  (void)!write(to_clients[1], &byte, 1);
  waitpid(clients, nullptr, 0);
}
