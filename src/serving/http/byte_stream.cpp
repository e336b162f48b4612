#include "serving/http/byte_stream.h"

#include <poll.h>

#include <algorithm>
#include <boost/asio/ssl/stream.hpp>
#include <utility>
#include <vector>

namespace deepinfer::serving {
namespace {

namespace net = boost::asio;
using boost::system::error_code;

class PlainStream final : public ByteStream {
 public:
  PlainStream(Socket connected, std::span<char> scratch) : socket_(std::move(connected)), scratch_(scratch) {}

  void open(std::shared_ptr<StreamOwner> owner) override {
    net::post(socket_.get_executor(), [owner = std::move(owner)] { owner->on_open({}); });
  }

  // Waits without a buffer, so that a connection that rests holds none.
  void read(std::shared_ptr<StreamOwner> owner) override {
    socket_.async_wait(Socket::wait_read, [this, owner = std::move(owner)](error_code error) mutable {
      if (error) return owner->on_read(error, {});
      const std::size_t bytes = socket_.read_some(net::buffer(scratch_.data(), scratch_.size()), error);
      if (error == net::error::would_block) return read(std::move(owner));
      owner->on_read(error, {scratch_.data(), error ? 0 : bytes});
    });
  }

  std::size_t try_send(const Pieces& pieces) override {
    error_code error;
    const std::size_t bytes = socket_.write_some(pieces, error);
    return error ? 0 : bytes;
  }

  void send(const Pieces& pieces, std::shared_ptr<StreamOwner> owner) override {
    socket_.async_write_some(
        pieces, [owner = std::move(owner)](error_code error, std::size_t bytes) { owner->on_sent(error, bytes); });
  }

  void finish_sending(std::shared_ptr<StreamOwner>) override {
    error_code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
  }

 private:
  Socket& socket() override { return socket_; }

  Socket socket_;
  const std::span<char> scratch_;
};

class TlsStream final : public ByteStream {
 public:
  TlsStream(Socket connected, net::ssl::context& context) : stream_(std::move(connected), context), buffer_(kBuffer) {}

  void open(std::shared_ptr<StreamOwner> owner) override {
    stream_.async_handshake(net::ssl::stream_base::server,
                            [owner = std::move(owner)](error_code error) { owner->on_open(error); });
  }

  void read(std::shared_ptr<StreamOwner> owner) override {
    stream_.async_read_some(net::buffer(buffer_),
                            [this, owner = std::move(owner)](error_code error, std::size_t bytes) {
                              owner->on_read(error, {buffer_.data(), bytes});
                            });
  }

  std::size_t try_send(const Pieces&) override { return 0; }

  // OpenSSL takes one piece at a time: they become one here, so that they share a record.
  void send(const Pieces& pieces, std::shared_ptr<StreamOwner> owner) override {
    record_.clear();
    for (const net::const_buffer& piece : pieces) {
      const char* bytes = static_cast<const char*>(piece.data());
      record_.insert(record_.end(), bytes, bytes + std::min(piece.size(), kRecord - record_.size()));
    }
    stream_.async_write_some(net::buffer(record_), [owner = std::move(owner)](error_code error, std::size_t bytes) {
      owner->on_sent(error, bytes);
    });
  }

  void finish_sending(std::shared_ptr<StreamOwner> owner) override {
    stream_.async_shutdown([owner = std::move(owner)](error_code) {});
  }

 private:
  static constexpr std::size_t kBuffer = 4096;
  static constexpr std::size_t kRecord = 16384;  // the most that TLS puts into one record

  Socket& socket() override { return stream_.next_layer(); }

  net::ssl::stream<Socket> stream_;
  std::vector<char> buffer_;
  std::vector<char> record_;
};

}  // namespace

void ByteStream::close(bool reset) {
  error_code ignored;
  if (reset) socket().set_option(net::socket_base::linger(true, 0), ignored);
  socket().close(ignored);
}

bool ByteStream::peer_has_closed() {
  pollfd watched{socket().native_handle(), POLLRDHUP, 0};
  return ::poll(&watched, 1, 0) == 1 && (watched.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

std::unique_ptr<ByteStream> make_plain_stream(Socket socket, std::span<char> scratch) {
  return std::make_unique<PlainStream>(std::move(socket), scratch);
}

std::unique_ptr<ByteStream> make_tls_stream(Socket socket, net::ssl::context& context) {
  return std::make_unique<TlsStream>(std::move(socket), context);
}

}  // namespace deepinfer::serving
