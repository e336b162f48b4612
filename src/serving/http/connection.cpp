// Connection: from answers to bytes, and the end.
#include "serving/http/connection.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "serving/http/cors.h"
#include "serving/http/io_thread.h"

namespace deepinfer::serving {
namespace {

constexpr std::size_t kKeptBytes = 16 << 10;  // of a buffer, for the next answer

}  // namespace

Connection::Connection(IoThread& thread, std::unique_ptr<ByteStream> stream, Peer peer,
                       std::optional<HttpError> refusal)
    : thread_(thread),
      server_(thread.server()),
      stream_(std::move(stream)),
      peer_(std::move(peer)),
      refusal_(std::move(refusal)),
      has_place_(!refusal_) {}

void Connection::pump() {
  if (!exchange_) return;
  if (exchange_->overflowed()) {
    server_.count(HttpRefusal::kSlowReader);
    return lose_client(HttpAccess::End::kCut);
  }
  if (sending_ || answer_ended_) return;
  bytes_.clear();
  ServerExchange::Output output = exchange_->take(bytes_);
  if (output.head) begin_answer(std::move(*output.head), output.whole);
  if (!sends_body_) bytes_.clear();
  answer_ended_ = output.ended;
  answer_aborted_ = output.aborted;

  std::string_view chunk_head, chunk_end;
  if (answer_begun_ && framing_ == Framing::kChunked && sends_body_) {
    const bool last = answer_ended_ && !answer_aborted_;
    if (!bytes_.empty()) {
      char* end = std::to_chars(chunk_head_, chunk_head_ + sizeof chunk_head_ - 2, bytes_.size(), 16).ptr;
      *end++ = '\r';
      *end++ = '\n';
      chunk_head = {chunk_head_, static_cast<std::size_t>(end - chunk_head_)};
      chunk_end = last ? "\r\n0\r\n\r\n" : "\r\n";
    } else if (last) {
      chunk_end = "0\r\n\r\n";
    }
  }
  pieces_ = {boost::asio::buffer(head_), boost::asio::buffer(chunk_head), boost::asio::buffer(bytes_),
             boost::asio::buffer(chunk_end)};
  if (boost::asio::buffer_size(pieces_) > 0) {
    send_pieces();
  } else if (answer_ended_) {
    finish_exchange();
  }
}

void Connection::begin_answer(HttpResponse head, bool whole) {
  answer_begun_ = true;
  status_ = head.status;
  sends_body_ = exchange_->request().method != "HEAD" && !has_no_body(head.status);
  framing_ = whole ? Framing::kLength : http_1_0_ ? Framing::kUntilClose : Framing::kChunked;
  close_after_ = close_after_ || framing_ == Framing::kUntilClose || server_.draining;
  if (allows_origin(server_.options.cors_origins, exchange_->request()))
    add_cors_headers(exchange_->request().header("origin"), head.headers);
  if (whole) bytes_ = std::move(head.body);
  head_ = write_response_head(head, {.framing = framing_,
                                     .body_bytes = bytes_.size(),
                                     .http_1_0 = http_1_0_,
                                     .keep_alive = !close_after_,
                                     .request_id = exchange_->request().id});
}

// Most of the time the system takes everything at once, and no event is needed to go on.
void Connection::send_pieces() {
  last_sent_ = Clock::now();
  if (const std::size_t bytes = stream_->try_send(pieces_); bytes > 0) {
    take_off_sent(bytes);
    if (boost::asio::buffer_size(pieces_) == 0) return all_sent();
  }
  sending_ = true;
  stream_->send(pieces_, shared_from_this());
}

void Connection::on_sent(boost::system::error_code error, std::size_t bytes) {
  if (state_ == State::kClosed) return;
  if (error) {
    if (exchange_) return lose_client(HttpAccess::End::kClientLeft);
    return close(false);
  }
  last_sent_ = Clock::now();
  take_off_sent(bytes);
  if (boost::asio::buffer_size(pieces_) > 0) return stream_->send(pieces_, shared_from_this());
  sending_ = false;
  all_sent();
  pump();  // what has come meanwhile
}

void Connection::take_off_sent(std::size_t bytes) {
  server_.bytes_sent += bytes;
  ++server_.writes;
  answer_bytes_ += bytes;
  for (boost::asio::const_buffer& piece : pieces_) {
    const std::size_t taken = std::min(bytes, piece.size());
    piece += taken;
    bytes -= taken;
  }
}

// What comes from now on makes the exchange ready again.
void Connection::all_sent() {
  if (!head_.empty()) std::string().swap(head_);
  if (bytes_.capacity() > kKeptBytes) std::string().swap(bytes_);
  if (!exchange_) return;
  exchange_->sent();
  if (answer_ended_) finish_exchange();
}

void Connection::finish_exchange() {
  report(answer_aborted_ ? HttpAccess::End::kAborted : HttpAccess::End::kWhole);
  exchange_->leave_connection();
  const std::shared_ptr<ServerExchange> exchange = std::move(exchange_);
  exchange->finish();
  if (bytes_.capacity() > 0) std::string().swap(bytes_);
  read_refused_ = false;
  if (answer_aborted_) return close(framing_ == Framing::kUntilClose);
  if (input_ended_) return close(false);
  if (close_after_ || server_.draining) return linger();
  await_request();
}

// The client learns of the end, and what it still sends is thrown away: closing with unread bytes would make the system
// throw away the answer.
void Connection::linger() {
  state_ = State::kLingering;
  deadline_ = Clock::now() + server_.options.linger_timeout;
  std::string().swap(input_);
  stream_->finish_sending(shared_from_this());
  read_more();
}

void Connection::tick(Clock::time_point now) {
  const HttpServerOptions& options = server_.options;
  if (state_ == State::kAnswering) {
    if (sending_) {
      if (now - last_sent_ < options.write_timeout) return;
      server_.count(HttpRefusal::kSlowReader);
      return lose_client(HttpAccess::End::kCut);
    }
    if (read_refused_ && stream_->peer_has_closed()) return lose_client(HttpAccess::End::kClientLeft);
    if (answer_begun_ && now - last_sent_ >= options.heartbeat) {
      exchange_->beat();
      pump();
    }
    return;
  }
  if (now < deadline_) return;
  switch (state_) {
    case State::kOpening:
      server_.count(HttpRefusal::kTlsHandshake);
      return close(false);
    case State::kHead:
      return refuse({408, "the head of the request took too long", HttpRefusal::kHeaderTimeout});
    case State::kBody:
      return refuse({408, "the body of the request took too long", HttpRefusal::kBodyTimeout});
    default:
      return close(false);
  }
}

void Connection::drain() {
  if (state_ == State::kIdle && !first_ && input_.empty()) linger();
}

void Connection::cut() {
  if (exchange_) return lose_client(HttpAccess::End::kCut);
  close(false);  // the system may still hold the end of an answer
}

void Connection::report(HttpAccess::End end) {
  if (!server_.options.on_access) return;
  server_.options.on_access({&exchange_->request(), status_, end, answer_bytes_,
                             std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - request_time_),
                             exchange_->description()});
}

void Connection::lose_client(HttpAccess::End end) {
  if (end == HttpAccess::End::kClientLeft) ++server_.clients_left;
  report(end);
  exchange_->leave_connection();
  const std::shared_ptr<ServerExchange> exchange = std::move(exchange_);
  close(end == HttpAccess::End::kCut);
  exchange->client_gone();
}

void Connection::close(bool reset) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  stream_->close(reset);
  server_.give_back_body_memory(std::exchange(body_memory_, 0));
  if (has_place_) server_.give_back_place(peer_.network);
  thread_.remove(*this);
}

}  // namespace deepinfer::serving
