#include "raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace deepinfer::serving::testing {
namespace {

// Decodes chunks from the front of `bytes`; true and the bytes used when the last one is there.
bool decode_chunks(std::string_view bytes, std::string& body, std::size_t& used) {
  body.clear();
  std::size_t at = 0;
  for (;;) {
    const std::size_t line_end = bytes.find("\r\n", at);
    if (line_end == bytes.npos) return false;
    const std::size_t size = std::stoul(std::string(bytes.substr(at, line_end - at)), nullptr, 16);
    at = line_end + 2;
    if (bytes.size() < at + size + 2) {
      body.append(bytes.substr(at, std::min(size, bytes.size() - at)));
      return false;
    }
    body.append(bytes.substr(at, size));
    if (bytes.substr(at + size, 2) != "\r\n") return false;
    at += size + 2;
    if (size == 0) return used = at, true;
  }
}

}  // namespace

RawClient RawClient::to_port(int port, int receive_buffer_bytes) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer_bytes > 0)
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return RawClient(fd);
  ::close(fd);
  return RawClient(-1);
}

RawClient RawClient::to_path(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return RawClient(fd);
  ::close(fd);
  return RawClient(-1);
}

RawClient::RawClient(RawClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), received_(std::move(other.received_)), ended_(other.ended_) {}

RawClient::~RawClient() {
  if (fd_ >= 0) ::close(fd_);
}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawClient::send_slowly(std::string_view bytes, std::size_t at_a_time, std::chrono::milliseconds pause) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min(at_a_time, bytes.size()))) {
    if (!send(bytes.substr(0, at_a_time))) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

void RawClient::finish_sending() {
  ::shutdown(fd_, SHUT_WR);
}

void RawClient::reset() {
  const linger now{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(std::exchange(fd_, -1));
}

bool RawClient::receive(std::chrono::milliseconds patience) {
  if (ended_) return false;
  pollfd watched{fd_, POLLIN, 0};
  if (::poll(&watched, 1, static_cast<int>(patience.count())) <= 0) return false;
  char buffer[65536];
  const ssize_t got = ::recv(fd_, buffer, sizeof buffer, 0);
  if (got <= 0) {
    ended_ = true;
    return false;
  }
  received_.append(buffer, static_cast<std::size_t>(got));
  return true;
}

bool RawClient::read_until(std::string_view text, std::chrono::milliseconds patience) {
  while (received_.find(text) == received_.npos)
    if (!receive(patience)) return false;
  return true;
}

bool RawClient::is_closed(std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!ended_ && std::chrono::steady_clock::now() < until) {
    receive(std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()) +
            std::chrono::milliseconds(1));
  }
  return ended_;
}

RawResponse RawClient::read_response(bool head, std::chrono::milliseconds patience) {
  RawResponse response;
  if (!read_until("\r\n\r\n", patience)) return response;
  const std::size_t head_end = received_.find("\r\n\r\n") + 4;
  std::string_view lines = std::string_view(received_).substr(0, head_end - 2);
  response.status = std::atoi(std::string(lines.substr(9, 3)).c_str());
  lines.remove_prefix(lines.find("\r\n") + 2);
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find("\r\n"));
    std::string name(line.substr(0, line.find(':')));
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    response.headers[name] = line.substr(line.find(':') + 2);
    lines.remove_prefix(line.size() + 2);
  }
  received_.erase(0, head_end);
  if (head || response.status / 100 == 1 || response.status == 204 || response.status == 304) {
    response.whole = true;
    return response;
  }
  if (response.headers.contains("content-length")) {
    const std::size_t length = std::stoul(response.headers["content-length"]);
    while (received_.size() < length && receive(patience)) {
    }
    response.whole = received_.size() >= length;
    response.body = received_.substr(0, length);
    received_.erase(0, length);
  } else if (response.headers.contains("transfer-encoding")) {
    std::size_t used = 0;
    while (!(response.whole = decode_chunks(received_, response.body, used)) && receive(patience)) {
    }
    received_.erase(0, used);
  } else {
    while (receive(patience)) {
    }
    response.whole = ended_;
    response.body.swap(received_);
  }
  return response;
}

}  // namespace deepinfer::serving::testing
