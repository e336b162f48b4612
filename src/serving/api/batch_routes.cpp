#include <algorithm>
#include <string_view>
#include <utility>

#include "serving/api/file_routes.h"
#include "serving/api/list_page.h"
#include "serving/api/query_parameters.h"
#include "serving/api/stored_answers.h"

namespace deepinfer::serving {
namespace {

constexpr std::string_view kEndpoints[] = {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"};
constexpr size_t kMostMetadata = 16, kLongestName = 64, kLongestValue = 512;

// Text of a required member.
const std::string* text_of(const Json& body, const char* name) {
  const auto found = body.find(name);
  return found != body.end() && found->is_string() ? found->get_ptr<const std::string*>() : nullptr;
}

std::optional<ApiError> read_metadata(const Json& body, Json& metadata) {
  const auto found = body.find("metadata");
  if (found == body.end() || found->is_null()) return std::nullopt;
  const bool fits = found->is_object() && found->size() <= kMostMetadata &&
                    std::all_of(found->begin(), found->end(), [](const Json& value) {
                      return value.is_string() && value.get_ref<const std::string&>().size() <= kLongestValue;
                    });
  if (!fits) return bad_request("metadata: at most 16 texts of at most 512 bytes");
  for (const auto& [name, value] : found->items())
    if (name.size() > kLongestName) return bad_request("metadata: names have at most 64 bytes");
  metadata = *found;
  return std::nullopt;
}

}  // namespace

AnswerOrError create_batch(const HttpRequest& request, const FileAccess& access) {
  const Result<Json> body = parse_json(request.body);
  if (!body.ok()) return bad_request("invalid JSON request: " + body.status().message());
  if (!body->is_object()) return bad_request("invalid request body: expected an object");
  const std::string* input = text_of(*body, "input_file_id");
  if (input == nullptr) return bad_request("input_file_id: expected a string");
  const std::string* endpoint = text_of(*body, "endpoint");
  if (endpoint == nullptr || std::find(std::begin(kEndpoints), std::end(kEndpoints), *endpoint) == std::end(kEndpoints))
    return bad_request("endpoint: expected /v1/chat/completions, /v1/completions, /v1/responses or /v1/messages");
  const std::string* window = text_of(*body, "completion_window");
  if (window == nullptr || *window != "24h") return bad_request("completion_window: expected \"24h\"");
  NewBatch wanted{*input, *endpoint, nullptr};
  if (const auto error = read_metadata(*body, wanted.metadata)) return *error;
  const Result<BatchRecord> made = access.batches.create(access.owner, std::move(wanted));
  if (!made.ok()) return stored_error(made.status());
  constexpr std::string_view kKnown[] = {"input_file_id", "endpoint", "completion_window", "metadata"};
  std::vector<std::string> ignored;
  for (const auto& [name, value] : body->items())
    if (!value.is_null() && std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown))
      ignored.push_back(name);
  return stored_answer(made->object(), ignored, access.metrics);
}

AnswerOrError list_batches(const HttpRequest& request, const FileAccess& access) {
  const auto parameters = parse_query(request.query);
  if (!parameters.ok()) return bad_request(parameters.status().message());
  std::vector<Json> objects;
  for (const BatchRecord& record : access.batches.list(access.owner)) objects.push_back(record.object());
  const Result<Json> page = list_page(std::move(objects), *parameters, {});
  if (!page.ok()) return bad_request(page.status().message());
  return stored_answer(*page, {}, access.metrics);
}

AnswerOrError get_batch(const HttpRequest& request, const FileAccess& access) {
  const std::optional<BatchRecord> record = access.batches.find(access.owner, name_in_path(request));
  if (!record) return ApiError{404, "not_found_error", "There is no such batch."};
  return stored_answer(record->object(), {}, access.metrics);
}

AnswerOrError cancel_batch(const HttpRequest& request, const FileAccess& access) {
  const Result<BatchRecord> record = access.batches.cancel(access.owner, name_in_path(request));
  if (!record.ok()) return stored_error(record.status());
  return stored_answer(record->object(), {}, access.metrics);
}

std::function<std::optional<BatchOwner>(const std::string& owner)> batch_owners(const ApiKeys* keys) {
  return [keys](const std::string& name) -> std::optional<BatchOwner> {
    BatchOwner owner;
    if (keys == nullptr) return name == kOwnerWithoutKeys ? std::optional(owner) : std::nullopt;
    KeyAccount* const account = keys->account_of(name);
    if (account == nullptr) return std::nullopt;
    owner.tenant = account->tenant();
    owner.highest_priority = account->highest_priority();
    owner.may_start = [account] { return account->has_tokens(KeyAccount::Clock::now()); };
    owner.charge = [account](int64_t tokens) { account->charge(tokens, KeyAccount::Clock::now()); };
    return owner;
  };
}

}  // namespace deepinfer::serving
