// RawClient: one socket to a server, byte by byte: what tests of a server's manners need and no HTTP client allows.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace deepinfer::serving::testing {

struct RawResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case; the last of several
  std::string body;                            // decoded
  bool whole = false;                          // the end that its framing promises has come
};

class RawClient {
 public:
  static RawClient to_port(int port, int receive_buffer_bytes = 0);
  static RawClient to_path(const std::string& path);
  RawClient(RawClient&& other) noexcept;
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient();

  bool connected() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  // False where the server has closed.
  bool send(std::string_view bytes);
  // As the kernel is given them, one after the other with a pause.
  bool send_slowly(std::string_view bytes, std::size_t at_a_time, std::chrono::milliseconds pause);
  void finish_sending();  // an orderly end of this side
  void reset();           // a disorderly end of both

  // Reads one response; stops at a 100 too.  head: of a HEAD request.  Not whole where the server closed before the end
  // or nothing came for `patience`.
  RawResponse read_response(bool head = false, std::chrono::milliseconds patience = std::chrono::milliseconds(5000));
  // Reads until `text` has come (true), the server closed, or nothing came for `patience`; what came stays for
  // read_response().
  bool read_until(std::string_view text, std::chrono::milliseconds patience = std::chrono::milliseconds(5000));
  // Whether the server closes, orderly or not, within `patience`; what it sends before stays.
  bool is_closed(std::chrono::milliseconds patience = std::chrono::milliseconds(5000));
  const std::string& received() const { return received_; }

 private:
  explicit RawClient(int fd) : fd_(fd) {}
  // One read; false: the end, an error, or the time has passed.
  bool receive(std::chrono::milliseconds patience);

  int fd_ = -1;
  std::string received_;  // and not used yet
  bool ended_ = false;
};

}  // namespace deepinfer::serving::testing
