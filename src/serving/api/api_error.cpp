#include "serving/api/api_error.h"

#include <utility>

#include "serving/http/trace_context.h"
#include "text/json_text.h"
#include "text/protocol/answer_writer.h"

namespace deepinfer::serving {

ApiError api_error(const RequestError& error) {
  if (error.http_status == 503) return overloaded(error.message);
  if (error.http_status >= 500) return {error.http_status, "internal_error", "The server failed to answer."};
  return {error.http_status, "invalid_request_error", error.message};
}

ApiError overloaded(std::string message) {
  return {503, "overloaded_error", std::move(message), 1};
}

ApiError engine_failed() {
  ApiError error = overloaded("The engine has failed.");
  error.retry_after = 5;
  return error;
}

ErrorForm error_form(Protocol protocol) {
  return protocol == Protocol::kMessages ? ErrorForm::kAnthropic : ErrorForm::kOpenAi;
}

std::string error_body(const ApiError& error, ErrorForm form, const std::string& request_id) {
  std::string out =
      form == ErrorForm::kAnthropic ? "{\"type\":\"error\",\"error\":{\"message\":" : "{\"error\":{\"message\":";
  append_json_string(out, error.message);
  out.append(",\"type\":\"")
      .append(error.type)
      .append("\",\"param\":null,\"code\":\"")
      .append(error.type)
      .append("\"}");
  if (form == ErrorForm::kAnthropic) append_json_string(out += ",\"request_id\":", request_id);
  out += '}';
  return out;
}

HttpResponse error_response(const ApiError& error, ErrorForm form, const std::string& request_id) {
  HttpResponse response;
  response.status = error.status;
  response.body = error_body(error, form, request_id);
  if (error.retry_after) response.headers.emplace_back("retry-after", std::to_string(*error.retry_after));
  if (!error.allow.empty()) response.headers.emplace_back("allow", error.allow);
  if (error.status == 401) response.headers.emplace_back("www-authenticate", "Bearer");
  return response;
}

void add_trace_context(const HttpRequest& request, HttpResponse& response) {
  const std::string_view given = request.header("traceparent");
  if (parse_traceparent(given)) response.headers.emplace_back("traceparent", std::string(given));
}

std::string error_events(const ApiError& error, Protocol protocol, const std::string& request_id) {
  std::string out;
  switch (protocol) {
    case Protocol::kChatCompletions:
    case Protocol::kCompletions:
      append_server_sent_event(out, {}, error_body(error, ErrorForm::kOpenAi, request_id));
      append_server_sent_event(out, {}, "[DONE]");
      break;
    case Protocol::kResponses:
    case Protocol::kMessages:
      append_server_sent_event(out, "error", error_body(error, ErrorForm::kAnthropic, request_id));
      break;
  }
  return out;
}

}  // namespace deepinfer::serving
