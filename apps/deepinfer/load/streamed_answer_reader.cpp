#include "load/streamed_answer_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace deepinfer::cli {
namespace {

constexpr std::string_view kLine = "\r\n";
constexpr std::size_t kMostHead = 64 << 10;

}  // namespace

Status StreamedAnswerReader::read_head(std::size_t end) {
  const std::string_view head(input_.data(), end);
  std::string lower(head);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  if (head.starts_with("HTTP/1.1 200 ") && lower.find("\r\ntransfer-encoding: chunked") != lower.npos) return {};
  return {StatusCode::kInternal, fmt::format("the server answered: {:.600}", input_)};
}

void StreamedAnswerReader::read_events(FunctionRef<void(std::string_view data)> on_event) {
  constexpr std::string_view kData = "data: ";
  std::size_t begin = 0;
  for (std::size_t end; (end = events_.find("\n\n", begin)) != events_.npos; begin = end + 2) {
    std::string_view event(events_.data() + begin, end - begin);
    while (!event.empty()) {
      const std::string_view line = event.substr(0, event.find('\n'));
      event.remove_prefix(std::min(line.size() + 1, event.size()));
      if (line.starts_with(kData)) on_event(line.substr(kData.size()));
    }
  }
  events_.erase(0, begin);
}

Status StreamedAnswerReader::read(std::string_view bytes, FunctionRef<void(std::string_view data)> on_event) {
  const auto malformed = [] { return Status(StatusCode::kInternal, "the server's answer has a malformed chunk"); };
  input_.append(bytes);
  std::size_t used = 0;
  for (bool more = true; more;) {
    const std::string_view left = std::string_view(input_).substr(used);
    switch (part_) {
      case Part::kHead: {
        const std::size_t end = left.find("\r\n\r\n");
        more = end != left.npos;
        if (!more && left.size() > kMostHead) return read_head(left.size());
        if (!more) break;
        DI_RETURN_IF_ERROR(read_head(end));
        used += end + 4;
        part_ = Part::kChunkSize;
        break;
      }
      case Part::kChunkSize: {
        const std::size_t end = left.find(kLine);
        more = end != left.npos;
        if (!more) break;
        const auto parsed = std::from_chars(left.data(), left.data() + end, chunk_left_, 16);
        if (parsed.ec != std::errc() || parsed.ptr != left.data() + end) return malformed();
        used += end + kLine.size();
        part_ = chunk_left_ == 0 ? Part::kLastLine : Part::kChunk;
        break;
      }
      case Part::kChunk: {
        const std::size_t taken = std::min(chunk_left_, left.size());
        events_.append(left.substr(0, taken));
        used += taken;
        chunk_left_ -= taken;
        more = chunk_left_ == 0;
        if (more) part_ = Part::kChunkEnd;
        break;
      }
      case Part::kChunkEnd:
      case Part::kLastLine:
        more = left.size() >= kLine.size();
        if (!more) break;
        if (!left.starts_with(kLine)) return malformed();
        used += kLine.size();
        if (part_ == Part::kLastLine) ++answers_;
        part_ = part_ == Part::kLastLine ? Part::kHead : Part::kChunkSize;
        break;
    }
  }
  input_.erase(0, used);
  read_events(on_event);
  return {};
}

}  // namespace deepinfer::cli
