#include "serving/http/access_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <chrono>
#include <iterator>
#include <utility>

#include "serving/http/trace_context.h"
#include "text/json_text.h"

namespace deepinfer::serving {
namespace {

constexpr std::size_t kWaitingLines = 8192;

std::string_view name_of(HttpAccess::End end) {
  switch (end) {
    case HttpAccess::End::kWhole:
      return "whole";
    case HttpAccess::End::kClientLeft:
      return "client_left";
    case HttpAccess::End::kCut:
      return "cut";
    default:
      return "aborted";
  }
}

// A client's text as a JSON string that a terminal shows as it is: what controls one (DEL, C1) is escaped as C0 is.
void append_client_text(std::string& line, std::string_view text) {
  std::string json;
  append_json_string(json, text);
  for (size_t i = 0; i < json.size(); ++i) {
    const auto byte = static_cast<unsigned char>(json[i]);
    const auto next = i + 1 < json.size() ? static_cast<unsigned char>(json[i + 1]) : 0;
    if (byte == 0x7F) {
      line += "\\u007f";
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      fmt::format_to(std::back_inserter(line), "\\u{:04x}", next);
      ++i;
    } else {
      line += json[i];
    }
  }
}

std::string beginning(LogLevel level) {
  const auto now = std::chrono::system_clock::now();
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return fmt::format("{{\"time\":\"{:%Y-%m-%dT%H:%M:%S}.{:03}Z\",\"level\":\"{}\"",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)), milliseconds, to_string(level));
}

}  // namespace

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "unknown";
}

std::optional<LogLevel> log_level(std::string_view name) {
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError})
    if (to_string(level) == name) return level;
  return std::nullopt;
}

LogLevel level_of(const HttpAccess& access) {
  if (access.status >= 500 && access.status != 503) return LogLevel::kError;
  if (access.status == 503 || access.end == HttpAccess::End::kCut || access.end == HttpAccess::End::kAborted)
    return LogLevel::kWarning;
  const std::string_view path = access.request->path;
  const bool watches = path == "/" || path.starts_with("/page/") || path.starts_with("/health/") || path == "/metrics";
  return watches && access.status < 400 ? LogLevel::kDebug : LogLevel::kInfo;
}

std::string event_line(LogLevel level, std::string_view event, std::string_view members) {
  return fmt::format("{},\"event\":\"{}\"{}{}}}", beginning(level), event, members.empty() ? "" : ",", members);
}

std::string access_line(const HttpAccess& access) {
  const HttpRequest& request = *access.request;
  std::string line = beginning(level_of(access));
  fmt::format_to(std::back_inserter(line), ",\"id\":\"{}\",\"peer\":\"{}\",\"method\":", request.id, request.peer);
  append_client_text(line, request.method);
  line += ",\"path\":";
  append_client_text(line, request.path);
  fmt::format_to(std::back_inserter(line), ",\"status\":{},\"bytes\":{},\"ms\":{:.3f},\"end\":\"{}\"", access.status,
                 access.bytes, 1e-3 * static_cast<double>(access.time.count()), name_of(access.end));
  if (const auto trace = parse_traceparent(request.header("traceparent")))
    fmt::format_to(std::back_inserter(line), ",\"trace\":\"{}\"", trace->trace_id);
  if (!access.description.empty()) line.append(",").append(access.description);
  line += '}';
  return line;
}

struct AccessLog::Writer {
  explicit Writer(spdlog::sink_ptr sink)
      : pool(std::make_shared<spdlog::details::thread_pool>(kWaitingLines, 1)),
        logger(std::make_shared<spdlog::async_logger>("access", std::move(sink), pool,
                                                      spdlog::async_overflow_policy::overrun_oldest)) {
    logger->set_pattern("%v");
    logger->flush_on(spdlog::level::info);
  }

  // First the thread, which writes what waits and lets go of the logger; then what it wrote to.
  ~Writer() { pool.reset(); }

  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::shared_ptr<spdlog::async_logger> logger;
};

AccessLog::AccessLog(std::unique_ptr<Writer> writer) : writer_(std::move(writer)) {}

AccessLog::~AccessLog() = default;

Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& path) {
  try {
    spdlog::sink_ptr sink;
    if (path == "-") {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
    }
    return std::unique_ptr<AccessLog>(new AccessLog(std::make_unique<Writer>(std::move(sink))));
  } catch (const spdlog::spdlog_ex&) {
    return io_error("cannot write the access log " + path);
  }
}

void AccessLog::record(const HttpAccess& access) {
  if (level_of(access) >= level_) writer_->logger->info(access_line(access));
}

void AccessLog::event(LogLevel level, std::string_view event, std::string_view members) {
  if (level >= level_) writer_->logger->info(event_line(level, event, members));
}

std::uint64_t AccessLog::lost() const {
  return writer_->pool->overrun_counter();
}

}  // namespace deepinfer::serving
