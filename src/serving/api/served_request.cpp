#include "serving/api/served_request.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "base/out_of_memory.h"
#include "engine/request_log/logged_request.h"
#include "text/protocol/answer_writer.h"

namespace deepinfer::serving {
namespace {

constexpr int kClientGone = 499;  // for metrics: nobody reads it

}  // namespace

ServedRequest::ServedRequest(Engine& engine, std::shared_ptr<HttpExchange> exchange, const GeneratingRoute& route,
                             KeyAccount* account, ApiMetrics& metrics, RunningRequests& running)
    : RequestRun(engine),
      exchange_(std::move(exchange)),
      route_(route),
      account_(account),
      metrics_(metrics),
      running_(running) {}

void ServedRequest::watch_client() {
  exchange_->on_client_gone([weak = weak_from_this()] {
    const auto run = std::static_pointer_cast<ServedRequest>(weak.lock());
    if (run == nullptr) return;
    run->gone_ = true;
    run->cancel();
  });
}

void ServedRequest::start(const RequestIdentity& identity, const RequestContext& context) {
  if (gone_) return refuse({kClientGone, "cancelled", "The client has left."});
  const std::string& body = exchange_->request().body;
  RequestOr<PreparedRequest> prepared = RequestError{};
  const Status memory = or_out_of_memory([&] { return "a request of " + std::to_string(body.size()) + " bytes"; },
                                         [&]() -> Status {
                                           prepared = prepare_request(route_.protocol, body, identity, context);
                                           return {};
                                         });
  if (!memory.ok()) return refuse(api_error(request_error(memory)));
  if (const auto* error = std::get_if<RequestError>(&prepared)) return refuse(api_error(*error));
  PreparedRequest& request = std::get<PreparedRequest>(prepared);
  stream_ = request.stream;
  ignored_ = std::move(request.ignored);
  prompt_tokens_ = request.prompt_tokens();
  metrics_.ignored(ignored_);
  if (const Status status = submit(std::move(request)); !status.ok())
    refuse(context.engine->stats().state == EngineState::kFailed ? engine_failed() : api_error(request_error(status)));
}

void ServedRequest::end_with(const ApiError& error) {
  {
    const std::lock_guard lock(error_mutex_);
    early_error_ = error;
  }
  cancel();
}

void ServedRequest::refuse(const ApiError& error) {
  HttpResponse response = error_response(error, error_form(route_.protocol), exchange_->request().id);
  add_trace_context(exchange_->request(), response);
  answered(error.status);
  exchange_->respond(std::move(response));
}

void ServedRequest::accepted(bool sound) {
  if (account_ != nullptr) account_->charge(prompt_tokens_, KeyAccount::Clock::now());
  if (sound && stream_ && !gone_) begin_stream();
}

void ServedRequest::event(std::string_view name, std::string_view data) {
  if (!stream_) return;
  append_server_sent_event(waiting_, name, data);
  metrics_.events.add(1);
}

void ServedRequest::updated(int64_t tokens) {
  if (account_ != nullptr) account_->charge(tokens, KeyAccount::Clock::now());
  if (tokens > 0 && std::exchange(first_token_, false)) {
    const auto taken = std::chrono::steady_clock::now() - arrival_;
    metrics_.first_event_seconds.observe(std::chrono::duration<double>(taken).count());
  }
  if (waiting_.empty() || gone_) return;
  begin_stream();
  if (!exchange_->write(waiting_)) {
    gone_ = true;
    cancel();
  }
  waiting_.clear();
}

void ServedRequest::describe(const RunSummary& summary) {
  const auto milliseconds = [](Time time) { return std::chrono::duration<double, std::milli>(time).count(); };
  std::string members;
  const auto to = std::back_inserter(members);
  if (account_ != nullptr) fmt::format_to(to, "\"key\":\"{}\",", account_->name());
  fmt::format_to(to,
                 "\"stream\":{},\"prompt_tokens\":{},\"cached_tokens\":{},\"answer_tokens\":{},\"drafted\":{},"
                 "\"accepted\":{},\"reason\":\"{}\",\"queue_ms\":{:.3f},\"first_token_ms\":{:.3f}",
                 stream_, summary.prompt_tokens, summary.cached_tokens, summary.answer_tokens, summary.drafted,
                 summary.accepted, to_string(summary.reason), milliseconds(summary.queued),
                 milliseconds(summary.first_token));
  exchange_->describe(std::move(members));
}

void ServedRequest::begin_stream() {
  if (std::exchange(began_, true)) return;
  exchange_->begin_stream(head());
  exchange_->set_heartbeat(": \n\n");
}

void ServedRequest::ended(const RunSummary& summary) {
  describe(summary);
  if (gone_) {
    answered(kClientGone);
    if (began_) return exchange_->abort_stream();
    return exchange_->respond({.status = kClientGone, .headers = {}, .body = {}});
  }
  if (summary.whole()) {
    answered(200);
    if (stream_) {
      exchange_->end_stream();
    } else {
      HttpResponse response = head();
      response.body = answer().object();
      exchange_->respond(std::move(response));
    }
    return;
  }
  const ApiError error = error_of(summary);
  if (!began_) return refuse(error);
  answered(error.status);
  exchange_->write(error_events(error, route_.protocol, exchange_->request().id));
  exchange_->end_stream();
}

HttpResponse ServedRequest::head() const {
  HttpResponse response;
  if (stream_) {
    response.content_type = "text/event-stream; charset=utf-8";
    response.headers.emplace_back("cache-control", "no-cache");
    response.headers.emplace_back("x-accel-buffering", "no");  // proxies that read it pass events on at once
  }
  if (!ignored_.empty()) response.headers.emplace_back("deepinfer-ignored", ignored_header(ignored_));
  if (route_.protocol == Protocol::kMessages) response.headers.emplace_back("request-id", exchange_->request().id);
  add_trace_context(exchange_->request(), response);
  return response;
}

ApiError ServedRequest::error_of(const RunSummary& summary) {
  if (summary.reason == EndReason::kDeadline)
    return {408, "timeout_error", "The request's timeout passed before its answer was complete."};
  if (summary.reason == EndReason::kError) return api_error(request_error(summary.failure));
  const std::lock_guard lock(error_mutex_);
  return early_error_.value_or(overloaded("The server is closing."));
}

// Before the exchange is: whoever sees the answer sees it counted.
void ServedRequest::answered(int status) {
  metrics_.answered(route_.path, status, account_ == nullptr ? std::string_view() : account_->name());
  if (account_ != nullptr) account_->end();
  running_.remove(this);
}

}  // namespace deepinfer::serving
