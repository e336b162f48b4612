#include "serving/admin/admin_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "serving/api/api_metrics.h"

namespace deepinfer::serving {

struct AdminApi::Route {
  std::string_view method;
  std::string_view path;
  bool waits;  // for the engine: on a worker
  Answer (AdminApi::*answer)(const Json& body);
};

namespace {

// A pause that drains may wait for long; others go on meanwhile.
constexpr int kWorkers = 4;
constexpr size_t kMostWaiting = 64;

ApiError wrong(std::string message) {
  return {400, "invalid_request_error", std::move(message)};
}

HttpResponse json_answer(const Json& object) {
  HttpResponse response;
  response.body = dump_compact(object);
  return response;
}

// What the engine says about a change: its words are about its state, not about this machine.
ApiError engine_error(const Status& status) {
  if (status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kResourceExhausted)
    return {409, "conflict_error", status.message()};
  ApiError error = overloaded(status.code() == StatusCode::kCancelled ? "The server is shutting down."
                                                                      : "The engine could not do this.");
  return error;
}

std::optional<ApiError> unknown_field(const Json& body, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : body.items())
    if (std::find(known.begin(), known.end(), name) == known.end())
      return wrong(fmt::format("`{}` is no field here; allowed: {}", plain_name(name),
                               known.size() == 0 ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  return std::nullopt;
}

// A whole number of a field within its range, or what is wrong with it.
std::variant<int64_t, ApiError> number(const Json& body, const char* name, int64_t otherwise, int64_t lowest,
                                       int64_t highest) {
  const auto field = body.find(name);
  if (field == body.end()) return otherwise;
  const bool whole = field->is_number_integer() && !(field->is_number_unsigned() && field->get<uint64_t>() > INT64_MAX);
  if (!whole || field->get<int64_t>() < lowest || field->get<int64_t>() > highest)
    return wrong(fmt::format("`{}` is {}; allowed: a whole number from {} to {}", name,
                             dump_compact(*field).substr(0, 64), lowest, highest));
  return field->get<int64_t>();
}

}  // namespace

AdminApi::Match AdminApi::find_route(const HttpRequest& request) {
  static const Route kRoutes[] = {
      {"GET", "/admin/state", false, &AdminApi::state},
      {"POST", "/admin/flush-prefix-cache", true, &AdminApi::flush},
      {"POST", "/admin/drain", false, &AdminApi::drain},
      {"POST", "/admin/pause", true, &AdminApi::pause},
      {"POST", "/admin/resume", true, &AdminApi::resume},
      {"POST", "/admin/profile", true, &AdminApi::record_profile},
      {"GET", "/admin/log-level", false, &AdminApi::log_level_now},
      {"PUT", "/admin/log-level", false, &AdminApi::set_log_level},
  };
  std::string allowed;
  for (const Route& route : kRoutes) {
    if (request.path != route.path) continue;
    if (request.method == route.method) return {&route, std::nullopt};
    allowed.append(allowed.empty() ? "" : ", ").append(route.method);
  }
  if (allowed.empty()) return {nullptr, ApiError{404, "not_found_error", "There is no such path."}};
  return {nullptr,
          ApiError{405, "invalid_request_error", "This path is for " + allowed + " requests.", std::nullopt, allowed}};
}

AdminApi::AdminApi(Engine& engine, AdminOptions options) : engine_(engine), options_(std::move(options)) {
  workers_.emplace(kWorkers, kMostWaiting);
}

void AdminApi::close() {
  closing_ = true;
  workers_.reset();
}

std::optional<ApiError> AdminApi::refusal(const HttpRequest& request) const {
  if (options_.keys != nullptr && options_.keys->account(request) == nullptr)
    return ApiError{401, "authentication_error",
                    "A valid admin key is needed, in the header `Authorization: Bearer KEY` or `x-api-key`."};
  // A browser names the page that asks: none may, also where it has found out the address of this listener.
  if (!request.header("origin").empty())
    return ApiError{403, "permission_error", "Pages of a browser may not use this listener."};
  return std::nullopt;
}

std::optional<HttpResponse> AdminApi::check_head(const HttpRequest& request) const {
  std::optional<ApiError> error = refusal(request);
  if (!error && !request.path.starts_with("/admin/") && options_.watch) return std::nullopt;
  if (!error) error = find_route(request).error;
  if (!error) return std::nullopt;
  return error_response(*error, ErrorForm::kOpenAi, request.id);
}

void AdminApi::handle(std::shared_ptr<HttpExchange> exchange) {
  const HttpRequest& request = exchange->request();
  const auto respond = [](HttpExchange& to, const Answer& answer) {
    const auto* error = std::get_if<ApiError>(&answer);
    to.respond(error != nullptr ? error_response(*error, ErrorForm::kOpenAi, to.request().id)
                                : std::get<HttpResponse>(answer));
  };
  if (const auto error = refusal(request)) return respond(*exchange, *error);
  const Match match = find_route(request);
  if (match.error && options_.watch)
    if (auto answer = options_.watch(request)) return exchange->respond(*std::move(answer));
  if (match.error) return respond(*exchange, *match.error);
  Json body = Json::object();
  if (!request.body.empty()) {
    Result<Json> read = parse_json(request.body);
    if (!read.ok()) return respond(*exchange, wrong("invalid JSON request: " + read.status().message()));
    if (!read->is_object()) return respond(*exchange, wrong("invalid request body: expected an object"));
    body = *std::move(read);
  }
  const Route& route = *match.route;
  if (!route.waits) return respond(*exchange, (this->*route.answer)(body));
  const bool taken = workers_->push(
      [this, respond, exchange, &route, body = std::move(body)] { respond(*exchange, (this->*route.answer)(body)); });
  if (!taken) respond(*exchange, overloaded("Too many requests of operators wait."));
}

AdminApi::Answer AdminApi::done(std::string_view what) {
  return json_answer(Json{{"status", what}, {"engine", to_string(engine_.stats().state)}});
}

void AdminApi::note(std::string_view event, const Json& body) {
  if (options_.log == nullptr) return;
  std::string members = dump_compact(body);
  options_.log->event(LogLevel::kInfo, event, std::string_view(members).substr(1, members.size() - 2));
}

AdminApi::Answer AdminApi::state(const Json&) {
  const EngineStats stats = engine_.stats();
  const SchedulerStats& scheduler = stats.scheduler;
  Json out = Json::object();
  out["version"] = options_.version;
  out["engine"] = to_string(stats.state);
  out["draining"] = options_.draining();
  out["requests"] = Json{{"unanswered", options_.running()},
                         {"running", scheduler.running},
                         {"waiting", scheduler.waiting},
                         {"ended", scheduler.ended},
                         {"preemptions", scheduler.preemptions}};
  out["cache_blocks"] = Json{
      {"held", scheduler.held_blocks}, {"available", scheduler.available_blocks}, {"total", scheduler.total_blocks}};
  out["tier_bytes"] = stats.tier.store.bytes_held;
  out["steps"] = stats.steps;
  out["weights_version"] = stats.weights_version;
  out["log_level"] = options_.log == nullptr ? Json() : Json(to_string(options_.log->level()));
  return json_answer(out);
}

AdminApi::Answer AdminApi::flush(const Json& body) {
  if (auto error = unknown_field(body, {"tiers"})) return *std::move(error);
  PrefixTiers tiers;
  if (const auto list = body.find("tiers"); list != body.end()) {
    const std::string fault = "`tiers`: expected a list of tiers; allowed: device, host";
    if (!list->is_array() || list->empty()) return wrong(fault);
    tiers = {.device = false, .host = false};
    for (const Json& tier : *list) {
      if (tier != "device" && tier != "host") return wrong(fault);
      (tier == "device" ? tiers.device : tiers.host) = true;
    }
  }
  if (const Status status = engine_.forget_prefixes(tiers); !status.ok()) return engine_error(status);
  note("flushed", Json{{"device", tiers.device}, {"host", tiers.host}});
  return done("flushed");
}

AdminApi::Answer AdminApi::drain(const Json& body) {
  if (auto error = unknown_field(body, {})) return *std::move(error);
  options_.drain();
  return done("draining");
}

AdminApi::Answer AdminApi::pause(const Json& body) {
  if (auto error = unknown_field(body, {"mode"})) return *std::move(error);
  PauseMode mode = PauseMode::kKeep;
  if (const auto given = body.find("mode"); given != body.end()) {
    if (*given != "keep" && *given != "drain")
      return wrong(fmt::format("`mode` is {}; allowed: keep, drain", dump_compact(*given).substr(0, 64)));
    if (*given == "drain") mode = PauseMode::kDrain;
  }
  if (const Status status = engine_.pause(mode); !status.ok()) return engine_error(status);
  note("paused", Json::object());
  return done("paused");
}

AdminApi::Answer AdminApi::resume(const Json& body) {
  if (auto error = unknown_field(body, {})) return *std::move(error);
  if (const Status status = engine_.resume(); !status.ok()) return engine_error(status);
  note("resumed", Json::object());
  return done("resumed");
}

AdminApi::Answer AdminApi::record_profile(const Json& body) {
  if (auto error = unknown_field(body, {"steps", "timeout_seconds"})) return *std::move(error);
  const auto steps = number(body, "steps", 20, 1, StepProfile::kMostSteps);
  if (const auto* error = std::get_if<ApiError>(&steps)) return *error;
  const auto seconds = number(body, "timeout_seconds", 60, 1, 600);
  if (const auto* error = std::get_if<ApiError>(&seconds)) return *error;
  const auto recording =
      options_.profile->record(std::get<int64_t>(steps), std::chrono::seconds(std::get<int64_t>(seconds)),
                               [this] { return closing_ || engine_.stats().state == EngineState::kFailed; });
  if (!recording.ok()) return engine_error(recording.status());
  note("profiled", Json{{"steps", recording->steps}});
  HttpResponse response;
  response.headers.emplace_back("deepinfer-steps", std::to_string(recording->steps));
  response.body = recording->trace;
  return response;
}

AdminApi::Answer AdminApi::log_level_now(const Json&) {
  if (options_.log == nullptr) return ApiError{409, "conflict_error", "No log is written; --access-log names a file."};
  return json_answer(Json{{"level", to_string(options_.log->level())}});
}

AdminApi::Answer AdminApi::set_log_level(const Json& body) {
  if (options_.log == nullptr) return log_level_now(body);
  if (auto error = unknown_field(body, {"level"})) return *std::move(error);
  const auto given = body.find("level");
  const auto level =
      given == body.end() || !given->is_string() ? std::nullopt : log_level(given->get_ref<const std::string&>());
  if (!level) return wrong(fmt::format("`level`: expected one of {}", kLogLevels));
  options_.log->set_level(*level);
  note("log level", Json{{"to", to_string(*level)}});
  return log_level_now(body);
}

}  // namespace deepinfer::serving
