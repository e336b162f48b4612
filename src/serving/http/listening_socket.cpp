#include "serving/http/listening_socket.h"

#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstring>
#include <utility>

namespace deepinfer::serving {
namespace {

namespace net = boost::asio;
using boost::system::error_code;

constexpr std::chrono::milliseconds kPause{100};

Result<net::ip::address> address_of(const HttpListener& listener) {
  if (listener.host == "localhost") return net::ip::address(net::ip::address_v4::loopback());
  error_code error;
  const net::ip::address address = net::ip::make_address(listener.host, error);
  if (error) return invalid_argument("host: \"" + listener.host + "\" is neither an IP address nor localhost");
  return address;
}

std::string name_of(const HttpListener& listener) {
  if (!listener.unix_path.empty()) return listener.unix_path;
  return listener.host + ":" + std::to_string(listener.port);
}

// A socket file that nobody listens on any more, left by a process that was killed, is removed.
Status remove_dead_socket(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return {};
  if (!S_ISSOCK(found.st_mode)) return io_error("cannot listen on " + path + ": a file is there");
  net::io_context context;
  net::local::stream_protocol::socket probe(context);
  error_code error;
  probe.connect(net::local::stream_protocol::endpoint(path), error);
  if (error != net::error::connection_refused)
    return io_error("cannot listen on " + path + ": another process listens there");
  ::unlink(path.c_str());
  return {};
}

Peer peer_at(const net::generic::stream_protocol::endpoint& endpoint, std::size_t listener) {
  Peer peer{"unix", "unix", listener};
  if (endpoint.protocol().family() == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, endpoint.data(), sizeof in);
    peer.name = net::ip::address_v4(ntohl(in.sin_addr.s_addr)).to_string();
    peer.network = peer.name;
  } else if (endpoint.protocol().family() == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, endpoint.data(), sizeof in);
    net::ip::address_v6::bytes_type bytes;
    std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
    const net::ip::address_v6 address(bytes);
    if (address.is_v4_mapped()) {
      peer.name = peer.network = net::ip::make_address_v4(net::ip::v4_mapped, address).to_string();
    } else {
      peer.name = address.to_string();
      std::fill(bytes.begin() + 8, bytes.end(), 0);
      peer.network = net::ip::address_v6(bytes).to_string() + "/64";
    }
  }
  return peer;
}

}  // namespace

Result<bool> is_local(const HttpListener& listener) {
  if (!listener.unix_path.empty()) return true;
  DI_ASSIGN_OR_RETURN(const net::ip::address address, address_of(listener));
  return address.is_loopback();
}

ListeningSocket::ListeningSocket(net::io_context& context, const HttpListener& listener, std::size_t index)
    : listener_(listener), index_(index), acceptor_(context), pause_(context) {}

ListeningSocket::~ListeningSocket() {
  close();
}

Result<std::shared_ptr<ListeningSocket>> ListeningSocket::bind(net::io_context& context, const HttpListener& listener,
                                                               std::size_t index) {
  std::shared_ptr<ListeningSocket> socket(new ListeningSocket(context, listener, index));
  DI_RETURN_IF_ERROR(socket->listen());
  return socket;
}

Status ListeningSocket::listen() {
  net::generic::stream_protocol::endpoint endpoint;
  if (listener_.unix_path.empty()) {
    if (listener_.port < 0 || listener_.port > 65535)
      return invalid_argument("port: " + std::to_string(listener_.port) + " is not in [0, 65535]");
    DI_ASSIGN_OR_RETURN(const net::ip::address address, address_of(listener_));
    endpoint = net::ip::tcp::endpoint(address, static_cast<std::uint16_t>(listener_.port));
  } else {
    constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
    if (listener_.unix_path.size() > kLongest) {
      return invalid_argument("unix_path: " + listener_.unix_path + " is longer than the system's " +
                              std::to_string(kLongest) + " bytes");
    }
    DI_RETURN_IF_ERROR(remove_dead_socket(listener_.unix_path));
    endpoint = net::local::stream_protocol::endpoint(listener_.unix_path);
  }
  error_code error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error && listener_.unix_path.empty()) acceptor_.set_option(net::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  bound_ = !error;
  // Before anybody can connect, which takes listen().
  if (bound_ && !listener_.unix_path.empty()) ::chmod(listener_.unix_path.c_str(), S_IRUSR | S_IWUSR);
  if (!error) acceptor_.listen(net::socket_base::max_listen_connections, error);
  if (!error && listener_.unix_path.empty()) {
    sockaddr_in6 in{};  // the port is at the same place in both families
    const auto local = acceptor_.local_endpoint(error);
    std::memcpy(&in, local.data(), std::min<std::size_t>(sizeof in, local.size()));
    port_ = ntohs(in.sin6_port);
  }
  if (error) return io_error("cannot listen on " + name_of(listener_) + ": " + error.message());
  return {};
}

void ListeningSocket::accept(ServerState& server, NextThread next_thread, OnConnection on_connection) {
  server_ = &server;
  next_thread_ = std::move(next_thread);
  on_connection_ = std::move(on_connection);
  accept_next();
}

void ListeningSocket::accept_next() {
  IoThread& thread = next_thread_();
  acceptor_.async_accept(thread.context(), [self = shared_from_this(), &thread](error_code error, Socket socket) {
    if (error == net::error::operation_aborted || !self->acceptor_.is_open()) return;
    if (error == net::error::no_descriptors || error == boost::system::errc::too_many_files_open_in_system ||
        error == net::error::no_buffer_space || error == net::error::no_memory) {
      self->server_->count(HttpRefusal::kNoDescriptors);
      self->pause_.expires_after(kPause);
      self->pause_.async_wait([self](error_code) {
        if (self->acceptor_.is_open()) self->accept_next();
      });
      return;
    }
    if (!error) {
      error_code ignored;
      const auto endpoint = socket.remote_endpoint(ignored);
      if (!ignored) {
        ++self->server_->accepted;
        self->on_connection_(thread, std::move(socket), peer_at(endpoint, self->index_));
      }
    }
    self->accept_next();
  });
}

void ListeningSocket::close() {
  if (!acceptor_.is_open()) return;
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  if (bound_ && !listener_.unix_path.empty()) ::unlink(listener_.unix_path.c_str());
}

}  // namespace deepinfer::serving
