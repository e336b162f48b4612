#include "serving/http/response_head.h"

#include <boost/beast/core/buffer_traits.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/serializer.hpp>
#include <ctime>

namespace deepinfer::serving {
namespace {

namespace http = boost::beast::http;

boost::beast::string_view beast_view(std::string_view text) {
  return {text.data(), text.size()};
}

std::string one_line(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  return out;
}

// "Mon, 30 Nov 2026 19:00:00 GMT", made once a second.
const std::string& date_now() {
  thread_local std::time_t made_at = 0;
  thread_local std::string date;
  const std::time_t now = std::time(nullptr);
  if (now != made_at) {
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    char text[40];
    date.assign(text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts));
    made_at = now;
  }
  return date;
}

}  // namespace

bool has_no_body(int status) {
  return status / 100 == 1 || status == 204 || status == 304;
}

std::string write_response_head(const HttpResponse& response, const ResponseForm& form) {
  http::response<http::empty_body> message;
  message.version(form.http_1_0 ? 10 : 11);
  message.result(static_cast<unsigned>(response.status));
  if (!has_no_body(response.status)) {
    message.set(http::field::content_type, one_line(response.content_type));
    if (form.framing == Framing::kLength) message.content_length(form.body_bytes);
    if (form.framing == Framing::kChunked) message.chunked(true);
  }
  message.set(http::field::date, date_now());
  message.keep_alive(form.keep_alive);
  message.set("x-request-id", beast_view(form.request_id));
  for (const auto& [name, value] : response.headers) message.insert(one_line(name), one_line(value));

  std::string out;
  http::response_serializer<http::empty_body> serializer(message);
  serializer.split(true);
  boost::beast::error_code ec;
  while (!serializer.is_header_done()) {
    serializer.next(ec, [&](boost::beast::error_code&, const auto& buffers) {
      for (const auto buffer : boost::beast::buffers_range_ref(buffers))
        out.append(static_cast<const char*>(buffer.data()), buffer.size());
      serializer.consume(boost::beast::buffer_bytes(buffers));
    });
    if (ec) break;
  }
  return out;
}

}  // namespace deepinfer::serving
