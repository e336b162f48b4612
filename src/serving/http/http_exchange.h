// HttpExchange: one HTTP request and the way to answer it.  Made by the HTTP server (http_server.h), answered by the
// routes of serving/api, which know nothing of sockets; tests answer to an exchange of their own.
//
// An exchange is answered exactly once: respond(), or begin_stream() ... end_stream().  All calls are thread-safe and
// none of them waits: bytes are queued for the connection's own thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace deepinfer::serving {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;  // names in lower case

// What a client asked for.  The server has read all of it, within its limits, before a handler sees it.
struct HttpRequest {
  std::string id;      // unique in this process; goes back to the client as x-request-id
  std::string method;  // as sent: "GET", "POST", ...
  std::string path;    // normalised once: begins with "/", no query, no percent escapes, no empty or dot segments
  std::string query;   // behind the "?", as sent
  HttpHeaders headers;
  std::string body;
  std::string peer;          // address of the client; "unix" on a Unix socket
  std::size_t listener = 0;  // which of the server's listeners took the connection

  // The value of the first header of this name (lower case); empty where there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers;  // beyond content-type, content-length, connection and x-request-id, which the server writes
  std::string body;
};

class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual const HttpRequest& request() const = 0;

  virtual void respond(HttpResponse response) = 0;

  // Starts a body of unknown length: content_type of "head", whose own body is not used.
  virtual void begin_stream(HttpResponse head) = 0;
  // Queues bytes of the body.  False: nobody will read them (the client has left, or was cut off because it had more
  // bytes waiting than the server keeps for one client); the answer need not be continued.
  virtual bool write(std::string_view bytes) = 0;
  // Bytes that repeat whenever nothing else was written for the server's heartbeat interval, such as ": \n\n".
  virtual void set_heartbeat(std::string bytes) = 0;
  virtual void end_stream() = 0;
  // Ends the connection without the end of the body: the client sees that the answer is not whole.
  virtual void abort_stream() = 0;

  // What the access log says of this request beside what the server knows: members of a JSON object without braces,
  // such as "\"tokens\":7".  The last call before the answer ends counts.
  virtual void describe(std::string members) = 0;

  // Called at most once, on a thread of the server, when the client leaves before it has the whole answer; at once
  // where it has left already.  Must not wait.
  virtual void on_client_gone(std::function<void()> callback) = 0;
};

// Called on a thread of the server for each request; must not wait.
using HttpHandler = std::function<void(std::shared_ptr<HttpExchange>)>;

}  // namespace deepinfer::serving
