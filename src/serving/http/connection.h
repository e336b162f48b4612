// Connection: one client, from accept to close: reads requests one after the other, hands them to the handler and sends
// what comes back.  Owned by its IoThread, on whose thread everything here runs.
//
//   opening (TLS) ──► idle ──► head ──► body ──► answering ──► idle again, or lingering ──► closed
//
// While a request is answered the connection goes on reading, so that it sees the client leave.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "serving/http/byte_stream.h"
#include "serving/http/request_reader.h"
#include "serving/http/response_head.h"
#include "serving/http/server_exchange.h"

namespace deepinfer::serving {

class IoThread;

// Who is at the other end.
struct Peer {
  std::string name;     // as HttpRequest::peer
  std::string network;  // what the limit per peer counts
  std::size_t listener = 0;
};

class Connection final : public StreamOwner, public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  // refusal: the place of this connection is refused; it is answered with that and closed.
  Connection(IoThread& thread, std::unique_ptr<ByteStream> stream, Peer peer, std::optional<HttpError> refusal);

  void start();
  // The exchange has something to send.
  void pump();
  // Called some times a second: time limits and heartbeats.
  void tick(Clock::time_point now);
  // The server drains: closes the connection where it rests.
  void drain();
  // Ends it at once, whatever it does.
  void cut();

  // Only told why it is not wanted.
  bool refused() const { return !has_place_; }
  // The place in the thread's list of connections.
  std::size_t position = 0;

 private:
  enum class State { kOpening, kIdle, kHead, kBody, kAnswering, kLingering, kClosed };

  void on_open(boost::system::error_code error) override;
  void on_read(boost::system::error_code error, std::string_view bytes) override;
  void on_sent(boost::system::error_code error, std::size_t bytes) override;

  void read_more();
  void on_input_end(bool orderly);
  // Reading requests (connection_input.cpp).
  void await_request();
  void read_request(std::string_view bytes);
  bool accept_head();
  bool take_body_memory();
  void start_exchange();
  void refuse(const HttpError& error);
  void answer(HttpResponse response, bool close_after);
  void begin_exchange(HttpRequest request, bool close_after);
  // Sending answers (connection.cpp).
  void begin_answer(HttpResponse head, bool whole);
  void send_pieces();
  void take_off_sent(std::size_t bytes);
  void all_sent();
  void finish_exchange();
  void linger();
  void report(HttpAccess::End end);
  void lose_client(HttpAccess::End end);
  void close(bool reset);

  IoThread& thread_;
  ServerState& server_;
  std::unique_ptr<ByteStream> stream_;
  const Peer peer_;
  std::optional<HttpError> refusal_;
  const bool has_place_;

  State state_ = State::kOpening;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool first_ = true;          // no request has been answered
  bool reading_ = false;       // a read is under way
  bool read_refused_ = false;  // too much came behind the request that is answered: not read for now
  std::size_t behind_ = 0;     // bytes that came behind it
  std::string input_;          // received and not used yet
  std::unique_ptr<RequestReader> reader_;
  std::size_t body_memory_ = 0;  // taken for the body that is read

  std::shared_ptr<ServerExchange> exchange_;
  bool answer_begun_ = false;  // the head has been written
  bool answer_ended_ = false;  // all of the answer has been taken from the exchange
  bool answer_aborted_ = false;
  bool input_ended_ = false;  // the client has closed its side
  bool close_after_ = false;  // this answer is the last
  bool http_1_0_ = false;
  bool sends_body_ = true;
  Framing framing_ = Framing::kLength;
  int status_ = 0;
  std::uint64_t answer_bytes_ = 0;
  Clock::time_point request_time_{};
  Clock::time_point last_sent_{};  // the last byte that the system took

  bool sending_ = false;
  std::string head_;  // to send, in this order: head_, chunk_head_, bytes_, chunk_end_
  std::string bytes_;
  char chunk_head_[20];
  Pieces pieces_{};  // of these, what is left
};

}  // namespace deepinfer::serving
