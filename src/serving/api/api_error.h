// ApiError: a refusal or failure as clients see it: a status, and the envelope of the protocols in a body or an event.
#pragma once

#include <optional>
#include <string>

#include "serving/http/http_exchange.h"
#include "serving/requests/prepared_request.h"
#include "text/protocol/request_error.h"

namespace deepinfer::serving {

struct ApiError {
  int status = 400;
  std::string type = "invalid_request_error";  // also the code
  std::string message;
  std::optional<int> retry_after = std::nullopt;  // seconds
  std::string allow = {};                         // with 405: the methods that the path has
};

// What the client did wrong keeps its words; of failures on this side nothing is told but that they happened.
ApiError api_error(const RequestError& error);
ApiError overloaded(std::string message);
// The engine has broken down; whoever runs the server starts it again.
ApiError engine_failed();

// The form of errors: that of the official API, or on Messages the same with a type and the request's id beside it.
enum class ErrorForm { kOpenAi, kAnthropic };
ErrorForm error_form(Protocol protocol);

std::string error_body(const ApiError& error, ErrorForm form, const std::string& request_id);
HttpResponse error_response(const ApiError& error, ErrorForm form, const std::string& request_id);
// Adds what goes back with every answer: the request's traceparent, where it has a well-formed one.
void add_trace_context(const HttpRequest& request, HttpResponse& response);
// The last events of a stream that cannot be completed.
std::string error_events(const ApiError& error, Protocol protocol, const std::string& request_id);

}  // namespace deepinfer::serving
