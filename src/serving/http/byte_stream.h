// ByteStream: a connected socket, plain or TLS, as a connection uses it.  One read and one write at a time, all on the
// I/O thread that the socket belongs to; the owner is told there, never from inside a call.
#pragma once

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace deepinfer::serving {

using Socket = boost::asio::generic::stream_protocol::socket;

// Pieces to send in one call of the system, empty ones too.
using Pieces = std::array<boost::asio::const_buffer, 4>;

class StreamOwner {
 public:
  virtual ~StreamOwner() = default;
  virtual void on_open(boost::system::error_code error) = 0;
  // bytes is empty where there is an error, and gone after the call.
  virtual void on_read(boost::system::error_code error, std::string_view bytes) = 0;
  virtual void on_sent(boost::system::error_code error, std::size_t bytes) = 0;
};

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // The calls keep `owner`, which owns this, alive until it has been told.
  virtual void open(std::shared_ptr<StreamOwner> owner) = 0;  // on_open
  virtual void read(std::shared_ptr<StreamOwner> owner) = 0;  // on_read
  // What the system takes at once; 0: nothing for now, or an error that send() will meet.
  virtual std::size_t try_send(const Pieces& pieces) = 0;
  // on_sent with the number of bytes that the system took, at least one.  The bytes live until then.
  virtual void send(const Pieces& pieces, std::shared_ptr<StreamOwner> owner) = 0;
  // No more is sent; reading goes on.
  virtual void finish_sending(std::shared_ptr<StreamOwner> owner) = 0;
  // Ends what is under way with an error.  reset: what the system still holds for the client is dropped, and the client
  // sees an error rather than an end.
  void close(bool reset);
  // Whether the client has closed its side, though bytes of it may be unread.
  bool peer_has_closed();

 protected:
  virtual Socket& socket() = 0;
};

// socket: does not block.  scratch: where bytes are read to, for as long as on_read lasts; shared by the streams of one
// thread.
std::unique_ptr<ByteStream> make_plain_stream(Socket socket, std::span<char> scratch);
std::unique_ptr<ByteStream> make_tls_stream(Socket socket, boost::asio::ssl::context& context);

}  // namespace deepinfer::serving
