// RequestReader: the bytes of one connection, up to one request.  Owned by a connection, a new one for each request; no
// sockets here.  Parsing is Beast's; what Beast lets pass and two parsers could read in two ways is refused before it.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "serving/http/head_scanner.h"
#include "serving/http/http_exchange.h"
#include "serving/http/http_refusal.h"

namespace deepinfer::serving {

struct RequestLimits {
  HeadLimits head;
  std::size_t body_bytes = 0;
};

class RequestReader {
 public:
  enum class Progress {
    kHead,      // more bytes are needed for the head
    kBody,      // the head is there (request() has all but the body), more bytes are needed for the body
    kComplete,  // the whole request has been read
    kRefused,   // error() says why; what follows on this connection cannot be trusted
  };

  explicit RequestReader(const RequestLimits& limits);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Reads what belongs to this request and returns the number of bytes used.  What was not used belongs in front of the
  // next call's input; how the bytes are cut into calls changes nothing.
  std::size_t read(std::string_view input);

  Progress progress() const { return progress_; }
  const HttpError& error() const { return error_; }
  // method, path, query, headers and the body so far; from kBody on.
  HttpRequest& request() { return request_; }
  // From kBody on.
  const std::string& host() const { return host_; }  // lower case, without port; empty: an HTTP/1.0 request names none
  bool keep_alive() const { return keep_alive_; }
  bool http_1_0() const { return http_1_0_; }
  bool wants_continue() const { return wants_continue_; }

 private:
  class Parser;  // Beast's, with what it found

  std::size_t read_head(std::string_view input);
  std::size_t read_body(std::string_view input);
  void refuse(HttpError error);
  // The rules over the fields: Host, Content-Length, Transfer-Encoding, Expect.
  bool check_fields();

  RequestLimits limits_;
  HeadScanner scanner_;
  std::unique_ptr<Parser> parser_;
  Progress progress_ = Progress::kHead;
  HttpError error_;
  HttpRequest request_;
  std::string host_;
  int blank_lines_ = 0;  // in front of the request line
  bool keep_alive_ = false;
  bool http_1_0_ = false;
  bool wants_continue_ = false;
};

}  // namespace deepinfer::serving
