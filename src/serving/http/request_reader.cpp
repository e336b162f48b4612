#include "serving/http/request_reader.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "serving/http/request_target.h"

namespace deepinfer::serving {
namespace {

namespace http = boost::beast::http;
namespace net = boost::asio;

constexpr int kMaxBlankLines = 2;  // some old clients send one behind a body
constexpr std::size_t kMaxMethodBytes = 32;
constexpr std::size_t kMaxChunkHeadBytes = 256;      // size and extensions of one chunk
constexpr std::size_t kMaxTrailerBytes = 8 << 10;    // the last chunk's head and the fields behind it
constexpr std::size_t kMaxContentLengthDigits = 18;  // fits 64 bits

std::string_view view(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  return out;
}

// Whether the request line asks for a version of HTTP that is not spoken here.
bool names_another_version(std::string_view head) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const std::size_t at = line.rfind(" HTTP/");
  if (at == line.npos) return false;
  const std::string_view version = line.substr(at + 6);
  const auto digit_or_dot = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  return !version.empty() && version.size() <= 3 && version != "1.1" && version != "1.0" &&
         std::all_of(version.begin(), version.end(), digit_or_dot);
}

}  // namespace

class RequestReader::Parser final : public http::basic_parser<true> {
 public:
  Parser(HttpRequest& request, std::size_t body_bytes) : request_(request), body_bytes_(body_bytes) {}

  std::string target;
  int version = 0;

 private:
  using error_code = boost::beast::error_code;
  using string_view = boost::beast::string_view;

  void on_request_impl(http::verb, string_view method, string_view target_text, int http_version,
                       error_code&) override {
    request_.method = view(method);
    target = view(target_text);
    version = http_version;
  }
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_field_impl(http::field, string_view name, string_view value, error_code&) override {
    if (head_done_) return;  // a trailer: nobody asks for them
    request_.headers.emplace_back(lower(view(name)), view(value));
  }
  void on_header_impl(error_code&) override { head_done_ = true; }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view body, error_code&) override {
    request_.body.append(body.data(), body.size());
    return body.size();
  }
  // Beast's own limit counts a chunk twice whose malformed extension comes in pieces.
  void on_chunk_header_impl(std::uint64_t size, string_view extension, error_code& ec) override {
    if (size > body_bytes_ - request_.body.size()) ec = http::error::body_limit;
    if (extension.size() > kMaxChunkHeadBytes) ec = http::error::bad_chunk_extension;
  }
  std::size_t on_chunk_body_impl(std::uint64_t, string_view body, error_code&) override {
    request_.body.append(body.data(), body.size());
    return body.size();
  }
  void on_finish_impl(error_code&) override {}

  HttpRequest& request_;
  const std::size_t body_bytes_;  // the most
  bool head_done_ = false;
};

RequestReader::RequestReader(const RequestLimits& limits) : limits_(limits), scanner_(limits.head) {}
RequestReader::~RequestReader() = default;

void RequestReader::refuse(HttpError error) {
  error_ = std::move(error);
  progress_ = Progress::kRefused;
}

std::size_t RequestReader::read(std::string_view input) {
  std::size_t used = 0;
  if (progress_ == Progress::kHead) used = read_head(input);
  if (progress_ == Progress::kBody) used += read_body(input.substr(used));
  return used;
}

std::size_t RequestReader::read_head(std::string_view input) {
  std::size_t skipped = 0;
  while (blank_lines_ < kMaxBlankLines && input.substr(skipped).starts_with("\r\n")) {
    skipped += 2;
    ++blank_lines_;
  }
  input.remove_prefix(skipped);
  if (auto error = scanner_.scan(input)) return refuse(std::move(*error)), skipped;
  const std::size_t head_bytes = scanner_.head_bytes();
  if (head_bytes == 0) return skipped;

  parser_ = std::make_unique<Parser>(request_, limits_.body_bytes);
  parser_->header_limit(static_cast<std::uint32_t>(std::max(limits_.head.bytes, kMaxTrailerBytes)) + 1);
  parser_->body_limit(limits_.body_bytes);
  parser_->eager(true);
  boost::beast::error_code ec;
  parser_->put(net::const_buffer(input.data(), head_bytes), ec);
  if (ec == http::error::body_limit) {
    refuse({413, "the request body is larger than the limit of " + std::to_string(limits_.body_bytes) + " bytes",
            HttpRefusal::kBodyTooLarge});
  } else if (ec == http::error::bad_version && names_another_version(input)) {
    refuse({505, "only HTTP/1.1 and HTTP/1.0 are spoken here"});
  } else if (ec || !parser_->is_header_done() || request_.method.size() > kMaxMethodBytes) {
    refuse({400, "the request head is malformed"});
  } else if (check_fields()) {
    http_1_0_ = parser_->version == 10;
    keep_alive_ = parser_->keep_alive();
    parser_->body_limit(boost::none);  // the parser's own for chunks; a length has been checked
    progress_ = parser_->is_done() ? Progress::kComplete : Progress::kBody;
  }
  return skipped + head_bytes;
}

bool RequestReader::check_fields() {
  const auto fail = [&](int status, std::string message) {
    refuse({status, std::move(message)});
    return false;
  };
  const std::string* host = nullptr;
  const std::string* length = nullptr;
  const std::string* encoding = nullptr;
  for (const auto& [name, value] : request_.headers) {
    const std::string** once = name == "host"                ? &host
                               : name == "content-length"    ? &length
                               : name == "transfer-encoding" ? &encoding
                                                             : nullptr;
    if (once != nullptr && std::exchange(*once, &value) != nullptr)
      return fail(400, "the request has more than one " + name + " field");
    if (name == "expect") {
      if (lower(value) != "100-continue") return fail(417, "the expectation in the expect field is not known here");
      wants_continue_ = parser_->version == 11;
    }
    if (name == "content-encoding" && lower(value) != "identity")
      return fail(415, "bodies are read as they are, without a content-encoding");
  }
  if (length != nullptr && encoding != nullptr)
    return fail(400, "the request has both a content-length and a transfer-encoding field");
  if (length != nullptr && (length->empty() || length->size() > kMaxContentLengthDigits ||
                            !std::all_of(length->begin(), length->end(), [](char c) { return c >= '0' && c <= '9'; })))
    return fail(400, "the content-length field is not a number of bytes");
  if (encoding != nullptr && parser_->version != 11)
    return fail(400, "an HTTP/1.0 request cannot have a transfer-encoding field");
  if (encoding != nullptr && lower(*encoding) != "chunked")
    return fail(400, "the only transfer-encoding known here is chunked");

  auto target = parse_request_target(parser_->target);
  if (!target.ok()) return fail(400, target.status().message());
  if (host == nullptr && parser_->version == 11) return fail(400, "the request has no host field");
  if (host != nullptr) {
    const auto name = host_name(*host);
    if (!name) return fail(400, "the host field names no valid host");
    host_ = *name;
  }
  if (!target->authority.empty()) {
    if (host != nullptr && lower(*host) != lower(target->authority))
      return fail(400, "the request target and the host field name different hosts");
    host_ = *host_name(target->authority);
  }
  request_.path = std::move(target->path);
  request_.query = std::move(target->query);
  return true;
}

std::size_t RequestReader::read_body(std::string_view input) {
  std::size_t used = 0;
  while (used < input.size() && !parser_->is_done()) {
    boost::beast::error_code ec;
    used += parser_->put(net::const_buffer(input.data() + used, input.size() - used), ec);
    if (ec == http::error::need_more) break;
    if (ec == http::error::body_limit) {
      refuse({413, "the request body is larger than the limit of " + std::to_string(limits_.body_bytes) + " bytes",
              HttpRefusal::kBodyTooLarge});
      return used;
    }
    if (ec) {
      refuse({400, "the chunks of the request body are malformed"});
      return used;
    }
  }
  if (parser_->is_done()) {
    progress_ = Progress::kComplete;
  } else if (input.size() - used > kMaxTrailerBytes) {  // what is kept back is a chunk's head or the trailer
    refuse({400, "a chunk's head or the trailer of the request body is too long"});
  }
  return used;
}

}  // namespace deepinfer::serving
