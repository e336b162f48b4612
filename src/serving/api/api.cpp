#include "serving/api/api.h"

#include <fmt/format.h>

#include <utility>

#include "base/out_of_memory.h"
#include "engine/metrics/exposition.h"
#include "serving/api/cross_origin.h"
#include "serving/api/process_metrics.h"
#include "text/json_text.h"

namespace deepinfer::serving {

struct Api::Route {
  enum class Kind { kGenerate, kWork, kFiles, kModels, kModel, kVersion, kLive, kReady, kMetrics };

  std::string_view method;
  std::string_view path;  // "/" at its end stands for what goes on behind it, "*" for one segment
  Kind kind;
  Protocol protocol = Protocol::kChatCompletions;                              // kGenerate, and the form of errors
  AnswerOrError (*work)(const HttpRequest&, const RequestContext&) = nullptr;  // kWork
  AnswerOrError (*files)(const HttpRequest&, const FileAccess&) = nullptr;     // kFiles
};

namespace {

int64_t now() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch()).count();
}

std::string_view id_prefix(Protocol protocol) {
  switch (protocol) {
    case Protocol::kChatCompletions:
      return "chatcmpl-";
    case Protocol::kCompletions:
      return "cmpl-";
    case Protocol::kResponses:
      return "resp_";
    case Protocol::kMessages:
      return "msg_";
  }
  return {};
}

ErrorForm form_of_path(std::string_view path) {
  return path == "/v1/messages" || path.starts_with("/v1/messages/") ? ErrorForm::kAnthropic : ErrorForm::kOpenAi;
}

Json model_object(const std::string& name, int64_t created, int64_t context) {
  Json out = Json::object();
  out["id"] = name;
  out["object"] = "model";
  out["created"] = created;
  out["owned_by"] = "deepinfer";
  out["max_model_len"] = context;
  return out;
}

std::string_view key_name(const KeyAccount* account) {
  return account == nullptr ? std::string_view() : account->name();
}

bool matches(std::string_view pattern, std::string_view path) {
  if (pattern.ends_with('/')) return path.starts_with(pattern) && path.size() > pattern.size();
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return path == pattern;
  const std::string_view before = pattern.substr(0, star), behind = pattern.substr(star + 1);
  if (path.size() <= before.size() + behind.size() || !path.starts_with(before) || !path.ends_with(behind))
    return false;
  return path.substr(before.size(), path.size() - before.size() - behind.size()).find('/') == std::string_view::npos;
}

HttpResponse json_response(const Json& object) {
  HttpResponse response;
  response.body = dump_compact(object);
  return response;
}

}  // namespace

Api::Match Api::find_route(const HttpRequest& request) const {
  using Kind = Route::Kind;
  static const Route kRoutes[] = {
      {"POST", "/v1/chat/completions", Kind::kGenerate, Protocol::kChatCompletions},
      {"POST", "/v1/completions", Kind::kGenerate, Protocol::kCompletions},
      {"POST", "/v1/responses", Kind::kGenerate, Protocol::kResponses},
      {"POST", "/v1/messages", Kind::kGenerate, Protocol::kMessages},
      {"POST", "/v1/messages/count_tokens", Kind::kWork, Protocol::kMessages, answer_count_tokens},
      {"GET", "/v1/models", Kind::kModels},
      {"GET", "/v1/models/", Kind::kModel},
      {"POST", "/tokenize", Kind::kWork, Protocol::kCompletions, answer_tokenize},
      {"POST", "/detokenize", Kind::kWork, Protocol::kCompletions, answer_detokenize},
      {"POST", "/v1/files", Kind::kFiles, Protocol::kChatCompletions, nullptr, upload_file},
      {"GET", "/v1/files", Kind::kFiles, Protocol::kChatCompletions, nullptr, list_files},
      {"GET", "/v1/files/*", Kind::kFiles, Protocol::kChatCompletions, nullptr, get_file},
      {"DELETE", "/v1/files/*", Kind::kFiles, Protocol::kChatCompletions, nullptr, delete_file},
      {"GET", "/v1/files/*/content", Kind::kFiles, Protocol::kChatCompletions, nullptr, get_file_content},
      {"POST", "/v1/batches", Kind::kFiles, Protocol::kChatCompletions, nullptr, create_batch},
      {"GET", "/v1/batches", Kind::kFiles, Protocol::kChatCompletions, nullptr, list_batches},
      {"GET", "/v1/batches/*", Kind::kFiles, Protocol::kChatCompletions, nullptr, get_batch},
      {"POST", "/v1/batches/*/cancel", Kind::kFiles, Protocol::kChatCompletions, nullptr, cancel_batch},
      {"GET", "/version", Kind::kVersion},
      {"GET", "/health/live", Kind::kLive},
      {"GET", "/health/ready", Kind::kReady},
      {"GET", "/metrics", Kind::kMetrics},
  };
  std::string allowed;
  for (const Route& route : kRoutes) {
    if (!matches(route.path, request.path) || (route.kind == Kind::kFiles && options_.files == nullptr)) continue;
    const bool reads = route.method == "GET";
    if (request.method == route.method || (reads && request.method == "HEAD")) return {&route, std::nullopt};
    allowed.append(allowed.empty() ? "" : ", ").append(reads ? "GET, HEAD" : route.method);
  }
  if (allowed.empty()) return {nullptr, ApiError{404, "not_found_error", "There is no such path."}};
  return {nullptr,
          ApiError{405, "invalid_request_error", "This path is for " + allowed + " requests.", std::nullopt, allowed}};
}

Api::Api(Engine& engine, ApiOptions options)
    : engine_(engine), options_(std::move(options)), started_(now()), running_(options_.most_running) {
  workers_.emplace(options_.workers, options_.most_waiting);
}

std::optional<ApiError> Api::authenticate(const HttpRequest& request, const Route* route, KeyAccount*& account) const {
  account = nullptr;
  if (options_.keys == nullptr || (route != nullptr && route->kind == Route::Kind::kLive)) return std::nullopt;
  account = options_.keys->account(request);
  if (account != nullptr) return std::nullopt;
  return ApiError{401, "authentication_error",
                  "A valid API key is needed, in the header `Authorization: Bearer KEY` or `x-api-key`."};
}

std::optional<ApiError> Api::check_route(const HttpRequest& request, const Route& route) const {
  // A page cannot know a key.
  if (options_.keys == nullptr)
    if (auto error = check_origin(request, options_.cors_origins)) return error;
  return check_content_type(request, route.files == upload_file);
}

std::optional<HttpResponse> Api::check_head(const HttpRequest& request) const {
  const Match match = find_route(request);
  KeyAccount* account = nullptr;
  std::optional<ApiError> error = authenticate(request, match.route, account);
  if (!error) error = match.error;
  if (!error) error = check_route(request, *match.route);
  if (!error) return std::nullopt;
  metrics_.answered(match.route == nullptr ? "other" : match.route->path, error->status);
  return error_response(*error, form_of_path(request.path), request.id);
}

HttpResponse Api::transport_error(const HttpRequest& request, int status, const std::string& message) {
  ApiError error{status, "invalid_request_error", message};
  if (status == 503) error.type = "overloaded_error";
  if (status == 429) error.type = "rate_limit_error";
  if (status == 500) error.type = "internal_error";
  return error_response(error, form_of_path(request.path), request.id);
}

std::optional<HttpResponse> Api::watch(const HttpRequest& request) const {
  using Kind = Route::Kind;
  const Match match = find_route(request);
  if (match.route == nullptr) return std::nullopt;
  const Kind kind = match.route->kind;
  if (kind != Kind::kLive && kind != Kind::kReady && kind != Kind::kMetrics) return std::nullopt;
  AnswerOrError answer = answer_now(*match.route, request);
  if (const auto* error = std::get_if<ApiError>(&answer)) return error_response(*error, ErrorForm::kOpenAi, request.id);
  return std::get<HttpResponse>(std::move(answer));
}

void Api::refuse(HttpExchange& exchange, const Route* route, const ApiError& error, const KeyAccount* account) {
  HttpResponse response = error_response(error, form_of_path(exchange.request().path), exchange.request().id);
  add_trace_context(exchange.request(), response);
  metrics_.answered(route == nullptr ? "other" : route->path, error.status, key_name(account));
  exchange.respond(std::move(response));
}

void Api::handle(std::shared_ptr<HttpExchange> exchange) {
  const HttpRequest& request = exchange->request();
  const Match match = find_route(request);
  KeyAccount* account = nullptr;
  if (const auto error = authenticate(request, match.route, account)) return refuse(*exchange, match.route, *error);
  if (account != nullptr) exchange->describe(fmt::format("\"key\":\"{}\"", account->name()));
  if (match.error) return refuse(*exchange, nullptr, *match.error, account);
  const Route& route = *match.route;
  if (const auto error = check_route(request, route)) return refuse(*exchange, &route, *error, account);
  switch (route.kind) {
    case Route::Kind::kGenerate:
      return generate(std::move(exchange), route, account);
    case Route::Kind::kWork:
    case Route::Kind::kFiles:
      return work(std::move(exchange), route, account);
    default:
      break;
  }
  AnswerOrError answer = answer_now(route, request);
  if (const auto* error = std::get_if<ApiError>(&answer)) return refuse(*exchange, &route, *error, account);
  HttpResponse& response = std::get<HttpResponse>(answer);
  add_trace_context(request, response);
  metrics_.answered(route.path, response.status, key_name(account));
  exchange->respond(std::move(response));
}

void Api::generate(std::shared_ptr<HttpExchange> exchange, const Route& route, KeyAccount* account) {
  if (account != nullptr)
    if (const auto error = account->begin(KeyAccount::Clock::now())) return refuse(*exchange, &route, *error, account);
  auto run = std::make_shared<ServedRequest>(engine_, exchange, GeneratingRoute{route.protocol, route.path}, account,
                                             metrics_, running_);
  if (!running_.add(run)) {
    if (account != nullptr) account->end();
    ApiError error =
        overloaded(running_.closed() ? "The server is shutting down." : "The server has too many requests.");
    if (running_.closed()) error.retry_after = 5;
    return refuse(*exchange, &route, error, account);
  }
  run->watch_client();
  RequestIdentity identity;
  identity.id = ids_.id(id_prefix(route.protocol));
  identity.seed = ids_.number();
  identity.random = ids_.number();
  identity.created = now();
  if (account != nullptr) {
    identity.tenant = account->tenant();
    identity.highest_priority = account->highest_priority();
  }
  const bool taken =
      workers_->push([this, run, identity = std::move(identity)] { run->start(identity, options_.requests); });
  if (!taken) run->refuse(overloaded("The server has too many requests."));
}

void Api::work(std::shared_ptr<HttpExchange> exchange, const Route& route, KeyAccount* account) {
  if (account != nullptr)
    if (const auto error = account->begin(KeyAccount::Clock::now())) return refuse(*exchange, &route, *error, account);
  const bool taken = workers_->push([this, exchange, &route, account] {
    const HttpRequest& request = exchange->request();
    AnswerOrError answer = ApiError{};
    const Status memory =
        or_out_of_memory([&] { return "a request of " + std::to_string(request.body.size()) + " bytes"; },
                         [&]() -> Status {
                           answer = answer_work(route, request, account);
                           return {};
                         });
    if (!memory.ok()) answer = overloaded(memory.message());
    if (account != nullptr) account->end();
    if (const auto* error = std::get_if<ApiError>(&answer)) return refuse(*exchange, &route, *error, account);
    HttpResponse& response = std::get<HttpResponse>(answer);
    add_trace_context(request, response);
    metrics_.answered(route.path, response.status, key_name(account));
    exchange->respond(std::move(response));
  });
  if (taken) return;
  if (account != nullptr) account->end();
  refuse(*exchange, &route, overloaded("The server has too many requests."), account);
}

AnswerOrError Api::answer_work(const Route& route, const HttpRequest& request, const KeyAccount* account) {
  if (route.work != nullptr) return route.work(request, options_.requests);
  const FileAccess access{*options_.files,
                          *options_.batches,
                          account == nullptr ? kOwnerWithoutKeys : account->owner(),
                          ids_,
                          metrics_,
                          now()};
  return route.files(request, access);
}

AnswerOrError Api::answer_now(const Route& route, const HttpRequest& request) const {
  const std::vector<std::string>& models = options_.requests.protocol.models;
  const int64_t context = engine_.max_context();
  switch (route.kind) {
    case Route::Kind::kModels: {
      Json list = Json::array();
      for (const std::string& name : models) list.push_back(model_object(name, started_, context));
      Json out = Json::object();
      out["object"] = "list";
      out["data"] = std::move(list);
      return json_response(out);
    }
    case Route::Kind::kModel: {
      const std::string_view wanted = std::string_view(request.path).substr(route.path.size());
      for (const std::string& name : models)
        if (name == wanted) return json_response(model_object(name, started_, context));
      return ApiError{404, "not_found_error", "There is no model of this name."};
    }
    case Route::Kind::kVersion:
      return json_response(Json{{"version", options_.version}});
    case Route::Kind::kLive:
      return json_response(Json{{"status", "live"}});
    case Route::Kind::kReady: {
      if (running_.closed() && engine_.stats().state != EngineState::kFailed)
        return overloaded("The server is shutting down.");
      const EngineState state = engine_.stats().state;
      if (state == EngineState::kFailed) return engine_failed();
      if (state != EngineState::kRunning) return overloaded(fmt::format("The engine is {}.", to_string(state)));
      return json_response(Json{{"status", "ready"}});
    }
    case Route::Kind::kMetrics: {
      HttpResponse response;
      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
      response.body = metrics_text();
      return response;
    }
    default:
      return ApiError{404, "not_found_error", "There is no such path."};
  }
}

std::string Api::metrics_text() const {
  metrics_.in_flight.set(static_cast<int64_t>(running_.count()));
  std::string text;
  const std::string& model = options_.requests.protocol.models.front();
  if (options_.engine_metrics) text = prometheus_text(*options_.engine_metrics, model);
  text += prometheus_text(engine_.stats(), model);
  text += metrics_.text();
  text += process_metrics_text();
  if (options_.batches != nullptr) {
    Exposition batches;
    batches.gauge("deepinfer_batches_unfinished", "Batches that have not ended.",
                  static_cast<int64_t>(options_.batches->unfinished()));
    text += batches.take();
  }
  if (options_.transport_metrics) text += options_.transport_metrics();
  return text;
}

void Api::begin_drain() {
  running_.close();
  if (options_.batches != nullptr) options_.batches->begin_close();
}

void Api::close() {
  workers_.reset();
  options_.batches.reset();
}

bool Api::wait_until_idle(std::chrono::steady_clock::time_point deadline) {
  return running_.wait_until_empty(deadline);
}

void Api::end_running() {
  ApiError error = overloaded("The server is shutting down.");
  error.retry_after = 5;
  running_.end_all(error);
}

}  // namespace deepinfer::serving
