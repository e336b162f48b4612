// ListeningSocket: one listener of the server: bound when it is made, then accepts for as long as it is open.  Owned by
// the HttpServer; runs on the I/O thread whose context it is given.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "serving/http/byte_stream.h"
#include "serving/http/io_thread.h"
#include "serving/http/server_state.h"

namespace deepinfer::serving {

class ListeningSocket : public std::enable_shared_from_this<ListeningSocket> {
 public:
  // kInvalidArgument and kIoError name the listener.
  static Result<std::shared_ptr<ListeningSocket>> bind(boost::asio::io_context& context, const HttpListener& listener,
                                                       std::size_t index);
  ~ListeningSocket();

  int port() const { return port_; }  // 0: a Unix socket
  bool tls() const { return listener_.tls; }

  // next_thread: where the next connection will live.  on_connection: is given it, on the thread of the context.
  using NextThread = std::function<IoThread&()>;
  using OnConnection = std::function<void(IoThread&, Socket, Peer)>;
  void accept(ServerState& server, NextThread next_thread, OnConnection on_connection);
  // On the thread of the context, or when that has ended.
  void close();

 private:
  ListeningSocket(boost::asio::io_context& context, const HttpListener& listener, std::size_t index);
  Status listen();
  void accept_next();

  const HttpListener listener_;
  const std::size_t index_;
  boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol> acceptor_;
  boost::asio::steady_timer pause_;  // where the process has no descriptors left
  int port_ = 0;
  bool bound_ = false;
  ServerState* server_ = nullptr;
  NextThread next_thread_;
  OnConnection on_connection_;
};

}  // namespace deepinfer::serving
