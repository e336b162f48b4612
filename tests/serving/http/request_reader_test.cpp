// One request from bytes: what is refused, and that cuts do not matter.
#include "serving/http/request_reader.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

namespace deepinfer::serving {
namespace {

using Progress = RequestReader::Progress;

constexpr RequestLimits kLimits{{2048, 20}, 4096};

struct Reading {
  Progress progress = Progress::kHead;
  int status = 0;
  HttpRequest request;
  std::string rest;
  bool keep_alive = false;
  bool operator==(const Reading& other) const {
    return progress == other.progress && status == other.status && rest == other.rest &&
           keep_alive == other.keep_alive && request.method == other.request.method &&
           request.path == other.request.path && request.query == other.request.query &&
           request.headers == other.request.headers && request.body == other.request.body;
  }
};

// Reads `bytes` as they come in pieces of these sizes, the last size again and again.
Reading read_in(std::string_view bytes, const std::vector<std::size_t>& sizes) {
  RequestReader reader(kLimits);
  std::string kept;
  std::size_t piece = 0;
  while (!bytes.empty() && reader.progress() != Progress::kComplete && reader.progress() != Progress::kRefused) {
    const std::size_t size = std::min(bytes.size(), sizes.empty() ? bytes.size() : sizes[piece]);
    if (piece + 1 < sizes.size()) ++piece;
    kept.append(bytes.substr(0, size));
    bytes.remove_prefix(size);
    kept.erase(0, reader.read(kept));
  }
  Reading reading;
  reading.progress = reader.progress();
  if (reading.progress == Progress::kRefused) {
    reading.status = reader.error().status;
    return reading;
  }
  reading.request = reader.request();
  reading.rest = kept + std::string(bytes);
  if (reading.progress == Progress::kComplete) reading.keep_alive = reader.keep_alive();
  return reading;
}

Reading read_whole(std::string_view bytes) {
  return read_in(bytes, {});
}

std::string get(std::string_view fields) {
  return "GET /x HTTP/1.1\r\nHost: h\r\n" + std::string(fields) + "\r\n";
}

std::string post(std::string_view fields, std::string_view body) {
  return "POST /x HTTP/1.1\r\nHost: h\r\n" + std::string(fields) + "\r\n" + std::string(body);
}

TEST(RequestReader, ReadsHeadAndBody) {
  const Reading reading =
      read_whole("POST //v1/x?q=1 HTTP/1.1\r\nHost: h\r\nX-Two:  a b \t\r\nContent-Length: 3\r\n\r\nabcGET");
  ASSERT_EQ(reading.progress, Progress::kComplete);
  EXPECT_EQ(reading.request.method, "POST");
  EXPECT_EQ(reading.request.path, "/v1/x");
  EXPECT_EQ(reading.request.query, "q=1");
  EXPECT_EQ(reading.request.header("x-two"), "a b");
  EXPECT_EQ(reading.request.header("x-three"), "");
  EXPECT_EQ(reading.request.body, "abc");
  EXPECT_EQ(reading.rest, "GET");
  EXPECT_TRUE(reading.keep_alive);
}

TEST(RequestReader, DecodesChunks) {
  const Reading reading = read_whole(
      post("Transfer-Encoding: Chunked\r\n", "3\r\nabc\r\nA;name=\"v\"\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nrest"));
  ASSERT_EQ(reading.progress, Progress::kComplete);
  EXPECT_EQ(reading.request.body, "abc0123456789");
  EXPECT_EQ(reading.request.header("trailer"), "");
  EXPECT_EQ(reading.rest, "rest");
}

TEST(RequestReader, KeepsAliveAsTheVersionSays) {
  EXPECT_TRUE(read_whole(get("")).keep_alive);
  EXPECT_FALSE(read_whole(get("Connection: close\r\n")).keep_alive);
  EXPECT_FALSE(read_whole("GET / HTTP/1.0\r\n\r\n").keep_alive);
  EXPECT_TRUE(read_whole("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
}

TEST(RequestReader, SkipsBlankLinesInFront) {
  EXPECT_EQ(read_whole("\r\n" + get("")).progress, Progress::kComplete);
  EXPECT_EQ(read_whole("\r\n\r\n\r\n" + get("")).status, 400);
}

TEST(RequestReader, RefusesShapesThatTwoParsersReadDifferently) {
  const std::string shapes[] = {
      post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "0\r\n\r\n"),
      post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"),
      post("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"),
      post("Content-Length: 3, 3\r\n", "abc"),
      post("Content-Length: +3\r\n", "abc"),
      post("Content-Length: -3\r\n", "abc"),
      post("Content-Length: 0x3\r\n", "abc"),
      post("Content-Length: 3 3\r\n", "abc"),
      post("Content-Length:\r\n", "abc"),
      post("Content-Length: 99999999999999999999\r\n", "abc"),
      post("Content-Length : 3\r\n", "abc"),
      post("Content-Length\t: 3\r\n", "abc"),
      post("Content-Length\r\n", "abc"),
      post(" Content-Length: 3\r\n", "abc"),
      post("X: y\r\n Content-Length: 3\r\n", "abc"),
      post("X: y\r\n\tz\r\n", ""),
      post(": x\r\n", ""),
      post("X: a\nContent-Length: 3\r\n", "abc"),
      post("X: a\rContent-Length: 3\r\n", "abc"),
      post(std::string_view("X: a\0b\r\n", 8), ""),
      post("X\x80: a\r\n", ""),
      post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"),
      post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"),
      post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
      post("Transfer-Encoding: identity\r\n", ""),
      post("Transfer-Encoding:\r\n", ""),
      post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", "-1\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", "0x1\r\na\r\n0\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", " 1\r\na\r\n0\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", "1 \r\na\r\n0\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", "\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", "1\na\n0\n\n\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", "1\r\nab\r\n0\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", "1\r\na0\r\n\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", "1;\r\na\r\n0\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", "1;a=\x01\r\na\r\n0\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", "10000000000000001\r\na\r\n0\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", "0\r\nContent-Length: 3\r\n\r\nabc"),
      "POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "GET /x HTTP/1.1\r\n\r\n",
      "GET /x HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
      "GET /x HTTP/1.1\r\nHost:\r\n\r\n",
      "GET /x HTTP/1.1\r\nHost: a b\r\n\r\n",
      "GET /x HTTP/1.1\r\nHost: u@h\r\n\r\n",
      "GET /x HTTP/1.1\r\nHost: a,b\r\n\r\n",
      "GET http://other/x HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET  /x HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET /x  HTTP/1.1\r\nHost: h\r\n\r\n",
      " GET /x HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET\t/x HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET /x\r\nHost: h\r\n\r\n",
      "GET /x HTTP/1.1 \r\nHost: h\r\n\r\n",
      "GET /x http/1.1\r\nHost: h\r\n\r\n",
      "GET /x HTTP/1,1\r\nHost: h\r\n\r\n",
      "G(T /x HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET x HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET * HTTP/1.1\r\nHost: h\r\n\r\n",
      "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET /x HTTP/1.1\nHost: h\n\n",
      "\n",
      "\x16\x03\x01\x02",
      std::string(40, 'A') + " /x HTTP/1.1\r\nHost: h\r\n\r\n",
  };
  for (const std::string& shape : shapes) {
    EXPECT_EQ(read_whole(shape).status, 400) << ::testing::PrintToString(shape);
    EXPECT_EQ(read_in(shape, {1}).status, 400) << "byte by byte: " << ::testing::PrintToString(shape);
  }
}

TEST(RequestReader, OtherRefusalsHaveTheirStatus) {
  EXPECT_EQ(read_whole("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").status, 505);
  EXPECT_EQ(read_whole("GET /x HTTP/1.2\r\nHost: h\r\n\r\n").status, 505);
  EXPECT_EQ(read_whole(post("Expect: 200-ok\r\nContent-Length: 1\r\n", "a")).status, 417);
  EXPECT_EQ(read_whole(post("Content-Encoding: gzip\r\nContent-Length: 1\r\n", "a")).status, 415);
}

TEST(RequestReader, Limits) {
  EXPECT_EQ(read_whole("GET /" + std::string(3000, 'x')).status, 414);
  EXPECT_EQ(read_whole(get("X: " + std::string(3000, 'x'))).status, 431);
  std::string fields;
  for (int i = 0; i < 19; ++i) fields += "X: y\r\n";  // and Host
  EXPECT_EQ(read_whole(get(fields)).progress, Progress::kComplete);
  EXPECT_EQ(read_whole(get(fields + "X: y\r\n")).status, 431);

  const std::string head = get("");
  const std::string longest = get("X: " + std::string(kLimits.head.bytes - head.size() - 5, 'x') + "\r\n");
  ASSERT_EQ(longest.size(), kLimits.head.bytes);
  EXPECT_EQ(read_whole(longest).progress, Progress::kComplete);
  EXPECT_EQ(read_whole(get("X: " + std::string(kLimits.head.bytes - head.size() - 4, 'x') + "\r\n")).status, 431);

  const std::string body(kLimits.body_bytes, 'b');
  EXPECT_EQ(read_whole(post("Content-Length: 4096\r\n", body)).request.body, body);
  EXPECT_EQ(read_whole(post("Content-Length: 4097\r\n", "")).status, 413);
  EXPECT_EQ(read_whole(post("Transfer-Encoding: chunked\r\n", "1000\r\n" + body + "\r\n0\r\n\r\n")).request.body, body);
  EXPECT_EQ(read_whole(post("Transfer-Encoding: chunked\r\n", "1001\r\n")).status, 413);
  EXPECT_EQ(read_whole(post("Transfer-Encoding: chunked\r\n", "1000\r\n" + body + "\r\n1\r\n")).status, 413);
  EXPECT_EQ(read_whole(post("Transfer-Encoding: chunked\r\n", "ffffffffffffffff\r\n")).status, 413);

  EXPECT_EQ(read_whole(post("Transfer-Encoding: chunked\r\n", "1;" + std::string(300, 'x') + "\r\na\r\n")).status, 400);
  EXPECT_EQ(read_in(post("Transfer-Encoding: chunked\r\n", "1;" + std::string(20000, 'x')), {100}).status, 400);
  EXPECT_EQ(read_in(post("Transfer-Encoding: chunked\r\n", "0\r\nX: " + std::string(20000, 'x')), {100}).status, 400);
}

// The same bytes in any cuts give the same request, or the same refusal.
TEST(RequestReader, CutsChangeNothing) {
  const std::string messages[] = {
      "\r\nPOST /a/%62 HTTP/1.1\r\nHost: h:1\r\nX: y\r\nContent-Length: 11\r\n\r\nhello worldGET / HTTP/1.1\r\n",
      post("Transfer-Encoding: chunked\r\n",
           "3\r\nabc\r\n1;x=y\r\nd\r\n00f\r\n0123456789abcde\r\n0\r\nA: b\r\n\r\nnext"),
      post("Transfer-Encoding: chunked\r\n", "3\r\nabcd\r\n0\r\n\r\n"),
      get("X: " + std::string(3000, 'x')),
      "GET / HTTP/1.1\r\nHost: h\r\nA: b\nC: d\r\n\r\n",
  };
  EXPECT_TRUE(rc::check([&] {
    const std::string& message = messages[*rc::gen::inRange<std::size_t>(0, std::size(messages))];
    auto sizes = *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(1, 40));
    RC_ASSERT(read_in(message, sizes) == read_whole(message));
  }));
  for (const std::string& message : messages) EXPECT_EQ(read_in(message, {1}), read_whole(message));
}

}  // namespace
}  // namespace deepinfer::serving
