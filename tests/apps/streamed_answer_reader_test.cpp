#include "load/streamed_answer_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace deepinfer::cli {
namespace {

const std::string kHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nx-request-id: 1\r\n\r\n";
// Events share a chunk or lie in two; a comment; a name.
const std::string kAnswer = kHead + "c\r\ndata: a\n\n: \n\r\n10\r\n\nevent: x\ndata: \r\n3\r\nb\n\n\r\n0\r\n\r\n";

TEST(StreamedAnswerReader, ReadsEventsInAnyCuts) {
  for (size_t cut = 1; cut <= kAnswer.size(); ++cut) {
    StreamedAnswerReader reader;
    for (int answer = 0; answer < 2; ++answer) {  // the second one on the same connection
      std::vector<std::string> events;
      for (size_t at = 0; at < kAnswer.size(); at += cut) {
        EXPECT_TRUE(at == 0 || !reader.ended());
        const Status read = reader.read(std::string_view(kAnswer).substr(at, cut),
                                        [&](std::string_view data) { events.emplace_back(data); });
        ASSERT_TRUE(read.ok()) << read.to_string();
      }
      EXPECT_TRUE(reader.ended());
      EXPECT_EQ(events, (std::vector<std::string>{"a", "b"})) << cut;
    }
  }
}

TEST(StreamedAnswerReader, TellsWhatElseTheServerAnswered) {
  const auto message = [](const std::string& bytes) {
    StreamedAnswerReader reader;
    return reader.read(bytes, [](std::string_view) {}).message();
  };
  EXPECT_NE(message("HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\n{}").find("429"), std::string::npos);
  EXPECT_NE(message("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").find("{}"), std::string::npos);
  EXPECT_NE(message(kHead + "5x\r\n").find("chunk"), std::string::npos);
  EXPECT_NE(message(kHead + "1\r\nab\r\n").find("chunk"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::cli
