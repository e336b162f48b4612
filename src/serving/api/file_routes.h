// Routes of OpenAI's Files and Batch API: /v1/files, /v1/batches.  Called on threads that may wait for the disk.
#pragma once

#include <cstdint>
#include <string>

#include "serving/api/api_keys.h"
#include "serving/api/api_metrics.h"
#include "serving/api/text_routes.h"
#include "serving/files/batch_service.h"
#include "serving/files/file_store.h"
#include "serving/requests/id_source.h"

namespace deepinfer::serving {

// What a request may reach: the owner's files and batches.
struct FileAccess {
  FileStore& files;
  BatchService& batches;
  std::string owner;
  IdSource& ids;
  ApiMetrics& metrics;
  int64_t now = 0;  // seconds since 1970
};

// A form with `file` and `purpose`.
AnswerOrError upload_file(const HttpRequest& request, const FileAccess& access);
AnswerOrError list_files(const HttpRequest& request, const FileAccess& access);
AnswerOrError get_file(const HttpRequest& request, const FileAccess& access);
AnswerOrError delete_file(const HttpRequest& request, const FileAccess& access);
// The bytes, or the part of them that `range` asks for.
AnswerOrError get_file_content(const HttpRequest& request, const FileAccess& access);

// {"input_file_id", "endpoint", "completion_window": "24h", "metadata"}
AnswerOrError create_batch(const HttpRequest& request, const FileAccess& access);
AnswerOrError list_batches(const HttpRequest& request, const FileAccess& access);
AnswerOrError get_batch(const HttpRequest& request, const FileAccess& access);
AnswerOrError cancel_batch(const HttpRequest& request, const FileAccess& access);

// The owner of what a request without keys makes.
inline constexpr const char* kOwnerWithoutKeys = "everybody";
// BatchServiceOptions::owner for these keys; null: everybody is one owner.  keys outlives the service.
std::function<std::optional<BatchOwner>(const std::string& owner)> batch_owners(const ApiKeys* keys);

}  // namespace deepinfer::serving
