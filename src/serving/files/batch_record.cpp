#include "serving/files/batch_record.h"

#include <utility>

namespace deepinfer::serving {
namespace {

constexpr std::string_view kNames[kBatchStatuses] = {"validating", "in_progress", "finalizing", "cancelling",
                                                     "completed",  "failed",      "expired",    "cancelled"};

constexpr BatchStatus status_at(size_t place) {
  return static_cast<BatchStatus>(place);
}

// The name of the time of a status; that of the first is created_at.
std::string time_name(BatchStatus status) {
  return status == BatchStatus::kValidating ? "created_at" : std::string(to_string(status)) + "_at";
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

// The members of an object that a server has written; anything else is damage.
class Kept {
 public:
  explicit Kept(const Json& object) : object_(object) {}

  std::string string(const char* name) {
    const Json* value = find(name);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
    if (value == nullptr || !value->is_null()) sound_ = false;
    return {};
  }
  std::optional<int64_t> number(const char* name) {
    const Json* value = find(name);
    if (value != nullptr && value->is_number_integer()) return value->get<int64_t>();
    if (value == nullptr || !value->is_null()) sound_ = false;
    return std::nullopt;
  }
  Json any(const char* name) {
    const Json* value = find(name);
    if (value == nullptr) sound_ = false;
    return value == nullptr ? Json(nullptr) : *value;
  }
  BatchStatus status(const char* name) {
    const std::string text = string(name);
    for (size_t i = 0; i < kBatchStatuses; ++i)
      if (kNames[i] == text) return status_at(i);
    sound_ = false;
    return BatchStatus::kFailed;
  }
  bool sound() const { return sound_; }

 private:
  const Json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }

  const Json& object_;
  bool sound_ = true;
};

}  // namespace

std::string_view to_string(BatchStatus status) {
  return kNames[static_cast<size_t>(status)];
}

void BatchRecord::enter(BatchStatus next, int64_t now) {
  status = next;
  time(next) = now;
}

Json BatchRecord::object() const {
  Json out = Json::object();
  out["id"] = id;
  out["object"] = "batch";
  out["endpoint"] = endpoint;
  out["errors"] = errors.empty() ? Json(nullptr) : Json{{"object", "list"}, {"data", errors}};
  out["input_file_id"] = input_file_id;
  out["completion_window"] = "24h";
  out["status"] = to_string(status);
  const bool whole = has_ended(status);  // files are there then
  out["output_file_id"] = whole ? text_or_null(output_file_id) : Json(nullptr);
  out["error_file_id"] = whole ? text_or_null(error_file_id) : Json(nullptr);
  for (size_t i = 0; i < kBatchStatuses; ++i) {
    out[time_name(status_at(i))] = times[i] ? Json(*times[i]) : Json(nullptr);
    if (status_at(i) == BatchStatus::kInProgress) out["expires_at"] = expires;
  }
  out["request_counts"] = Json{{"total", total}, {"completed", completed}, {"failed", failed}};
  out["metadata"] = metadata;
  return out;
}

std::string BatchRecord::text() const {
  Json out = object();
  out["errors"] = errors;
  out["owner"] = owner;
  out["seed"] = seed;
  out["ends_as"] = to_string(ends_as);
  out["output_file_id"] = text_or_null(output_file_id);
  out["error_file_id"] = text_or_null(error_file_id);
  return dump_compact(out);
}

Result<BatchRecord> BatchRecord::parse(std::string_view text) {
  const Result<Json> json = parse_json(text);
  if (!json.ok() || !json->is_object()) return corrupt_file("is no record of a batch");
  Kept kept(*json);
  BatchRecord record;
  record.id = kept.string("id");
  record.owner = kept.string("owner");
  record.endpoint = kept.string("endpoint");
  record.input_file_id = kept.string("input_file_id");
  record.output_file_id = kept.string("output_file_id");
  record.error_file_id = kept.string("error_file_id");
  record.status = kept.status("status");
  record.ends_as = kept.status("ends_as");
  for (size_t i = 0; i < kBatchStatuses; ++i) record.times[i] = kept.number(time_name(status_at(i)).c_str());
  record.expires = kept.number("expires_at").value_or(0);
  record.errors = kept.any("errors");
  record.metadata = kept.any("metadata");
  const Json seed = kept.any("seed"), counts = kept.any("request_counts");
  if (!kept.sound() || !record.errors.is_array() || !counts.is_object() || !seed.is_number_unsigned())
    return corrupt_file("is no record of a batch");
  record.seed = seed.get<uint64_t>();
  Kept numbers(counts);
  record.total = numbers.number("total").value_or(0);
  record.completed = numbers.number("completed").value_or(0);
  record.failed = numbers.number("failed").value_or(0);
  if (!numbers.sound() || !record.time(BatchStatus::kValidating)) return corrupt_file("is no record of a batch");
  return record;
}

}  // namespace deepinfer::serving
