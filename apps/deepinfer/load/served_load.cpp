#include "load/served_load.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "load/streamed_answer_reader.h"
#include "text/json_text.h"

namespace deepinfer::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

double thread_processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Status system_error(const char* what) {
  return io_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

// What the senders of all requests saw.
struct Figures {
  std::vector<double> first, totals;
  int64_t events = 0;
};

// One connection and the request that runs on it.
class Sender {
 public:
  Sender(int fd, Figures& figures) : socket_(fd), figures_(figures) {}

  int fd() const { return socket_.get(); }

  Status send_request(const std::string& body) {
    const std::string message = fmt::format(
        "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "
        "{}\r\n\r\n{}",
        body.size(), body);
    sent_ = Clock::now();
    has_first_ = false;
    last_.clear();
    for (std::string_view left = message; !left.empty();) {  // blocks: the server reads while it answers
      const ssize_t taken = ::send(fd(), left.data(), left.size(), MSG_NOSIGNAL);
      if (taken < 0) return system_error("sending a request");
      left.remove_prefix(static_cast<std::size_t>(taken));
    }
    return {};
  }

  // What is there.  True: the answer is whole.
  Result<bool> receive(std::vector<char>& buffer) {
    const ssize_t got = ::recv(fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got < 0) return system_error("reading an answer");
    if (got == 0) return io_error("the server closed the connection before the end of an answer");
    const Clock::time_point now = Clock::now();
    DI_RETURN_IF_ERROR(reader_.read({buffer.data(), static_cast<std::size_t>(got)},
                                    [&](std::string_view data) { take_event(data, now); }));
    if (!reader_.ended()) return false;
    figures_.totals.push_back(seconds_of(now - sent_));
    if (last_.find("\"finish_reason\":\"length\"") != last_.npos) return true;
    return Status(StatusCode::kInternal, fmt::format("an answer ended with {:.300}", last_));
  }

 private:
  void take_event(std::string_view data, Clock::time_point now) {
    ++figures_.events;
    if (!std::exchange(has_first_, true)) figures_.first.push_back(seconds_of(now - sent_));
    if (data != "[DONE]") last_ = data;
  }

  const Descriptor socket_;
  Figures& figures_;
  StreamedAnswerReader reader_;
  Clock::time_point sent_;
  bool has_first_ = false;
  std::string last_;  // event but [DONE]
};

Result<int> connect_to(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error("a socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  const Status status = system_error("connecting to the server");
  close(fd);
  return status;
}

}  // namespace

std::string completion_body(const EngineRequest& request, const std::string& model) {
  Json body = Json::object();
  body["model"] = model;
  body["prompt"] = request.prompt;
  body["max_tokens"] = request.params.max_tokens;
  body["temperature"] = request.params.temperature;
  body["seed"] = request.params.seed;
  body["ignore_eos"] = true;
  body["cache_salt"] = std::to_string(request.cache_salt);
  body["stream"] = true;
  return dump_compact(body);
}

Result<ServedLoadResult> run_served_load(int port, const std::vector<std::string>& bodies, int64_t concurrency) {
  Figures figures;
  std::vector<std::unique_ptr<Sender>> senders;
  const Descriptor events(epoll_create1(EPOLL_CLOEXEC));
  if (events.get() < 0) return system_error("epoll");
  const std::size_t most = std::min(bodies.size(), static_cast<std::size_t>(concurrency));
  for (std::size_t i = 0; i < most; ++i) {
    DI_ASSIGN_OR_RETURN(const int fd, connect_to(port));
    senders.push_back(std::make_unique<Sender>(fd, figures));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = senders.back().get();
    if (epoll_ctl(events.get(), EPOLL_CTL_ADD, fd, &event) != 0) return system_error("epoll");
  }
  const double processor = thread_processor_seconds();
  const Clock::time_point start = Clock::now();
  std::size_t sent = 0, ended = 0;
  for (const auto& sender : senders) DI_RETURN_IF_ERROR(sender->send_request(bodies[sent++]));
  std::vector<char> buffer(64 << 10);
  std::vector<epoll_event> ready(64);
  while (ended < bodies.size()) {
    const int count = epoll_wait(events.get(), ready.data(), static_cast<int>(ready.size()), -1);
    if (count < 0 && errno != EINTR) return system_error("epoll");
    for (int i = 0; i < count; ++i) {
      Sender& sender = *static_cast<Sender*>(ready[static_cast<std::size_t>(i)].data.ptr);
      DI_ASSIGN_OR_RETURN(const bool whole, sender.receive(buffer));
      if (!whole) continue;
      ++ended;
      if (sent < bodies.size()) DI_RETURN_IF_ERROR(sender.send_request(bodies[sent++]));
    }
  }
  ServedLoadResult result;
  result.seconds = seconds_of(Clock::now() - start);
  result.client_seconds = thread_processor_seconds() - processor;
  result.requests = static_cast<int64_t>(bodies.size());
  result.events = figures.events;
  result.first_token = percentiles(std::move(figures.first));
  result.request = percentiles(std::move(figures.totals));
  return result;
}

}  // namespace deepinfer::cli
