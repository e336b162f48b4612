#include <fmt/format.h>

#include <fstream>
#include <unordered_map>
#include <utility>

#include "base/out_of_memory.h"
#include "engine/request_log/log_line.h"
#include "engine/request_log/request_log.h"

namespace deepinfer {
namespace {

// Takes the lines of a log one after the other.
class Contents {
 public:
  explicit Contents(std::string name) : name_(std::move(name)) {}

  Status take(std::string_view text) {
    ++line_;
    auto line = parse_log_line(text);
    if (!line.ok()) return at_line(line.status());
    if ((line_ == 1) != std::holds_alternative<RequestLogHeader>(*line))
      return wrong(line_ == 1 ? "the first line of a request log is its header" : "a second header");
    if (auto* request = std::get_if<LoggedRequest>(&*line)) return take(std::move(*request));
    if (auto* end = std::get_if<LoggedEnd>(&*line)) return take(std::move(*end));
    contents_.header = std::move(std::get<RequestLogHeader>(*line));
    return {};
  }

  Result<RequestLogContents> finish(bool torn) {
    if (line_ == 0) return corrupt_file(fmt::format("{}: no request log: it has no whole line", name_));
    contents_.torn = torn;
    return std::move(contents_);
  }

 private:
  Status at_line(const Status& status) const { return status.with_context(fmt::format("{}: line {}", name_, line_)); }
  Status wrong(std::string what) const { return at_line(corrupt_file(std::move(what))); }

  Status take(LoggedRequest request) {
    const RequestId id = request.id;
    if (!places_.emplace(id, contents_.requests.size()).second)
      return wrong(fmt::format("request {} is there already", id));
    contents_.requests.push_back(std::move(request));
    return {};
  }
  Status take(LoggedEnd end) {
    const auto place = places_.find(end.id);
    if (place == places_.end()) return wrong(fmt::format("end of request {}, which no line before it names", end.id));
    LoggedRequest& request = contents_.requests[place->second];
    if (request.answer) return wrong(fmt::format("a second end of request {}", end.id));
    request.answer = std::move(end.answer);
    return {};
  }

  std::string name_;
  int64_t line_ = 0;
  RequestLogContents contents_;
  std::unordered_map<RequestId, size_t> places_;
};

Result<RequestLogContents> read_all(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return not_found(fmt::format("{}: no such file", path.string()));
  if (std::filesystem::is_directory(path, error)) return io_error(fmt::format("{}: is a folder", path.string()));
  std::ifstream in(path, std::ios::binary);
  Contents contents(path.string());
  for (std::string line; std::getline(in, line);) {
    if (in.eof()) return contents.finish(true);  // no line break behind it
    DI_RETURN_IF_ERROR(contents.take(line));
  }
  if (!in.eof()) return io_error(fmt::format("{}: cannot be read", path.string()));
  return contents.finish(false);
}

Result<RequestLogContents> parse_all(std::string_view text, std::string_view name) {
  Contents contents{std::string(name)};
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return contents.finish(true);
    DI_RETURN_IF_ERROR(contents.take(text.substr(0, end)));
    text.remove_prefix(end + 1);
  }
  return contents.finish(false);
}

}  // namespace

Result<RequestLogContents> read_request_log(const std::filesystem::path& path) {
  return or_out_of_memory([&] { return "the request log " + path.string(); }, [&] { return read_all(path); });
}

Result<RequestLogContents> parse_request_log(std::string_view text, std::string_view name) {
  return or_out_of_memory([&] { return fmt::format("a request log of {} bytes", text.size()); },
                          [&] { return parse_all(text, name); });
}

}  // namespace deepinfer
