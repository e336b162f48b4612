// Connection: from bytes to requests.
#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <new>
#include <utility>

#include "serving/http/connection.h"
#include "serving/http/cors.h"
#include "serving/http/io_thread.h"

namespace deepinfer::serving {
namespace {

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

void Connection::start() {
  last_sent_ = Clock::now();
  deadline_ = last_sent_ + server_.options.header_timeout;
  if (refusal_) return refuse(*refusal_);
  stream_->open(shared_from_this());
}

void Connection::on_open(boost::system::error_code error) {
  if (state_ == State::kClosed) return;
  if (error) {
    server_.count(HttpRefusal::kTlsHandshake);
    return close(false);
  }
  state_ = State::kIdle;  // until deadline_, which began with the connection
  read_more();
}

void Connection::read_more() {
  if (reading_ || state_ == State::kClosed) return;
  reading_ = true;
  stream_->read(shared_from_this());
}

void Connection::on_read(boost::system::error_code error, std::string_view bytes) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (error) return on_input_end(error == boost::asio::error::eof);
  server_.bytes_received += bytes.size();
  switch (state_) {
    case State::kAnswering:
      if (!close_after_) input_.append(bytes);
      behind_ += bytes.size();
      read_refused_ = behind_ >= server_.options.max_header_bytes;
      if (!read_refused_) read_more();
      return;
    case State::kLingering:
      return read_more();
    default:
      try {
        read_request(bytes);
      } catch (const std::bad_alloc&) {
        if (exchange_) return cut();
        refuse({503, "there is not enough memory for the request", HttpRefusal::kBodyMemory});
      }
  }
}

void Connection::on_input_end(bool orderly) {
  if (state_ != State::kAnswering) return close(false);
  if (orderly) {  // a client may close its side before it has the whole answer, if that is already on its way
    input_ended_ = true;
    pump();
    if (state_ != State::kAnswering || answer_ended_) return;
  }
  lose_client(HttpAccess::End::kClientLeft);
}

void Connection::await_request() {
  state_ = State::kIdle;
  first_ = false;
  deadline_ = Clock::now() + server_.options.idle_timeout;
  // Behind a request that was answered at once there may be others: one after the other, but not in one go.
  if (!input_.empty()) {
    boost::asio::post(thread_.context(), [self = shared_from_this()] {
      if (self->state_ == State::kIdle) self->read_request({});
    });
  }
  read_more();
}

void Connection::read_request(std::string_view bytes) {
  if (state_ == State::kIdle) {
    if (bytes.empty() && input_.empty()) return;
    state_ = State::kHead;
    if (!first_) deadline_ = Clock::now() + server_.options.header_timeout;
    const HttpServerOptions& options = server_.options;
    reader_ = std::make_unique<RequestReader>(
        RequestLimits{{options.max_header_bytes, options.max_header_fields}, options.max_body_bytes});
  }
  const bool kept = !input_.empty();
  if (kept) input_.append(bytes);
  const std::string_view input = kept ? std::string_view(input_) : bytes;
  const std::size_t used = reader_->read(input);
  if (kept) {
    input_.erase(0, used);
  } else {
    input_.assign(input.substr(used));
  }
  if (input_.empty()) std::string().swap(input_);  // a connection that rests keeps no memory

  const RequestReader::Progress progress = reader_->progress();
  if (progress == RequestReader::Progress::kRefused) return refuse(reader_->error());
  if (progress == RequestReader::Progress::kHead) return read_more();
  if (state_ == State::kHead) {
    state_ = State::kBody;
    deadline_ = Clock::now() + server_.options.body_timeout;
    if (!accept_head()) return;
  }
  if (!take_body_memory()) return;
  if (progress == RequestReader::Progress::kBody) return read_more();
  start_exchange();
}

// False: the request has been answered.
bool Connection::accept_head() {
  HttpRequest& request = reader_->request();
  request.id = server_.next_request_id();
  request.peer = peer_.name;
  request.listener = peer_.listener;
  const HttpServerOptions& options = server_.options;
  const bool has_body = reader_->progress() != RequestReader::Progress::kComplete;
  // No browser, whose pages the list keeps away, leaves the host out; HTTP/1.0 allows it.
  const bool names_host = !reader_->host().empty();
  if (!options.allowed_hosts.empty() && names_host && !contains(options.allowed_hosts, reader_->host())) {
    refuse({421, "this server does not answer for the host of the request", HttpRefusal::kHostNotAllowed});
    return false;
  }
  if (server_.draining && !contains(options.drain_paths, request.path)) {
    refuse({503, "the server is shutting down", HttpRefusal::kDraining});
    return false;
  }
  if (auto response = answer_preflight(options.cors_origins, request)) {
    answer(std::move(*response), has_body);
    return false;
  }
  if (options.check_head) {
    if (auto response = options.check_head(request)) {
      answer(std::move(*response), has_body);
      return false;
    }
  }
  if (reader_->wants_continue() && has_body && input_.empty() && !sending_) {
    pieces_ = {boost::asio::buffer(kContinue)};
    send_pieces();
  }
  return true;
}

bool Connection::take_body_memory() {
  const std::size_t bytes = reader_->request().body.size();
  if (bytes == body_memory_) return true;
  if (!server_.take_body_memory(bytes - body_memory_)) {
    refuse({503, "the server has as many bytes of requests as it allows", HttpRefusal::kBodyMemory});
    return false;
  }
  body_memory_ = bytes;
  return true;
}

void Connection::start_exchange() {
  ++server_.requests;
  begin_exchange(std::move(reader_->request()), !reader_->keep_alive());
  try {
    server_.handler(exchange_->make_handle());
  } catch (...) {  // the handle has gone without an answer: it becomes a 500
  }
  pump();
  read_more();  // sees the client leave
}

void Connection::refuse(const HttpError& error) {
  server_.count(error.reason);
  answer(server_.error_response(reader_ ? reader_->request() : HttpRequest(), error), true);
}

void Connection::answer(HttpResponse response, bool close_after) {
  HttpRequest request;
  if (reader_) request = std::move(reader_->request());
  if (request.id.empty()) {
    request.id = server_.next_request_id();
    request.peer = peer_.name;
    request.listener = peer_.listener;
  }
  begin_exchange(std::move(request), close_after || (reader_ && !reader_->keep_alive()));
  exchange_->respond(std::move(response));
  pump();
  read_more();
}

void Connection::begin_exchange(HttpRequest request, bool close_after) {
  state_ = State::kAnswering;
  deadline_ = Clock::time_point::max();
  request_time_ = Clock::now();
  http_1_0_ = reader_ && reader_->http_1_0();
  reader_.reset();
  close_after_ = close_after;
  answer_begun_ = answer_ended_ = answer_aborted_ = false;
  status_ = 0;
  answer_bytes_ = 0;
  behind_ = input_.size();
  exchange_ = std::make_shared<ServerExchange>(std::move(request), std::exchange(body_memory_, 0),
                                               thread_.shared_server(), thread_.queue(), this);
}

}  // namespace deepinfer::serving
