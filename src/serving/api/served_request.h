// ServedRequest: one request of a generating route, from its arrival until its exchange is answered: the engine's
// events go out as server-sent events, or the whole answer as one object; a client that leaves ends the generation.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serving/api/api_error.h"
#include "serving/api/api_keys.h"
#include "serving/api/api_metrics.h"
#include "serving/api/running_requests.h"
#include "serving/http/http_exchange.h"
#include "serving/requests/request_run.h"

namespace deepinfer::serving {

// A generating route: its protocol and its name in metrics.
struct GeneratingRoute {
  Protocol protocol = Protocol::kChatCompletions;
  std::string_view path;
};

class ServedRequest final : public RequestRun {
 public:
  // account: null without keys; a place in it was taken (KeyAccount::begin), which the answer gives back.  All outlive
  // the request.
  ServedRequest(Engine& engine, std::shared_ptr<HttpExchange> exchange, const GeneratingRoute& route,
                KeyAccount* account, ApiMetrics& metrics, RunningRequests& running);

  // Watches for the client's leaving.  Once, before start().
  void watch_client();
  // Reads the body, runs the request.  Called on a thread that may take its time; answers the exchange whatever
  // happens.
  void start(const RequestIdentity& identity, const RequestContext& context);
  // Ends with this error whatever runs, in the stream where that has begun.
  void end_with(const ApiError& error);
  // Answers with this error; before start().
  void refuse(const ApiError& error);

 private:
  void accepted(bool sound) override;
  void event(std::string_view name, std::string_view data) override;
  void updated(int64_t tokens) override;
  void ended(const RunSummary& summary) override;

  // For the access log.
  void describe(const RunSummary& summary);
  void begin_stream();
  HttpResponse head() const;
  ApiError error_of(const RunSummary& summary);
  void answered(int status);

  const std::shared_ptr<HttpExchange> exchange_;
  const GeneratingRoute route_;
  KeyAccount* const account_;
  ApiMetrics& metrics_;
  RunningRequests& running_;
  const std::chrono::steady_clock::time_point arrival_ = std::chrono::steady_clock::now();

  bool stream_ = false;
  std::vector<std::string> ignored_;
  int64_t prompt_tokens_ = 0;
  std::string waiting_;  // events that were not written yet
  bool began_ = false;   // the stream
  bool first_token_ = true;

  std::atomic<bool> gone_{false};
  std::mutex error_mutex_;
  std::optional<ApiError> early_error_;
};

}  // namespace deepinfer::serving
