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

}  // namespace

std::string access_line(const HttpAccess& access) {
  const HttpRequest& request = *access.request;
  const auto now = std::chrono::system_clock::now();
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::string line =
      fmt::format("{{\"time\":\"{:%Y-%m-%dT%H:%M:%S}.{:03}Z\",\"id\":\"{}\",\"peer\":\"{}\",\"method\":",
                  fmt::gmtime(std::chrono::system_clock::to_time_t(now)), milliseconds, request.id, request.peer);
  append_json_string(line, request.method);
  line += ",\"path\":";
  append_json_string(line, request.path);
  fmt::format_to(std::back_inserter(line), ",\"status\":{},\"bytes\":{},\"ms\":{:.3f},\"end\":\"{}\"", access.status,
                 access.bytes, 1e-3 * static_cast<double>(access.time.count()), name_of(access.end));
  if (const auto trace = parse_traceparent(request.header("traceparent")))
    fmt::format_to(std::back_inserter(line), ",\"trace\":\"{}\"", trace->trace_id);
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

  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::shared_ptr<spdlog::async_logger> logger;
};

AccessLog::AccessLog(std::unique_ptr<Writer> writer) : writer_(std::move(writer)) {}

AccessLog::~AccessLog() = default;  // the pool's thread writes what waits before it ends

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
  writer_->logger->info(access_line(access));
}

std::uint64_t AccessLog::lost() const {
  return writer_->pool->overrun_counter();
}

}  // namespace deepinfer::serving
