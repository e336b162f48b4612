#include "serving/files/batch_check.h"

#include <fmt/format.h>

#include <string>
#include <unordered_set>
#include <variant>

#include "serving/batch/batch_input.h"
#include "serving/batch/batch_line.h"

namespace deepinfer::serving {
namespace {

constexpr size_t kMostErrors = 100;

class Errors {
 public:
  explicit Errors(Json& list) : list_(list) {}
  bool full() const { return list_.size() >= kMostErrors; }
  void add(std::string_view code, Json line, std::string message) {
    Json error = Json::object();
    error["code"] = code;
    error["line"] = std::move(line);
    error["message"] = std::move(message);
    error["param"] = nullptr;
    list_.push_back(std::move(error));
  }

 private:
  Json& list_;
};

}  // namespace

Result<CheckedBatch> check_batch(const std::filesystem::path& input, std::string_view endpoint,
                                 const std::atomic<bool>& interrupted) {
  DI_ASSIGN_OR_RETURN(BatchInput lines, BatchInput::open(input));
  CheckedBatch checked;
  Errors errors(checked.errors);
  std::unordered_set<std::string> ids;
  while (!errors.full()) {
    if (interrupted) return Status(StatusCode::kCancelled, "interrupted");
    DI_ASSIGN_OR_RETURN(const std::optional<InputLine> line, lines.next());
    if (!line) break;
    if (++checked.requests > kMostBatchRequests) {
      errors.add("too_many_requests", line->number, fmt::format("a batch has at most {} requests", kMostBatchRequests));
      break;
    }
    if (line->too_long) {
      errors.add("line_too_long", line->number, fmt::format("the line has more than {} bytes", kMostLineBytes));
      continue;
    }
    const std::variant<BatchLine, BatchLineError> parsed = parse_batch_line(line->text);
    if (const auto* error = std::get_if<BatchLineError>(&parsed)) {
      errors.add(error->code, line->number, error->message);
      continue;
    }
    const BatchLine& request = std::get<BatchLine>(parsed);
    if (request.url != endpoint)
      errors.add("mismatched_url", line->number,
                 fmt::format("url: `{}` is not the batch's endpoint `{}`", request.url, endpoint));
    if (!ids.insert(request.custom_id).second)
      errors.add("duplicate_custom_id", line->number,
                 fmt::format("custom_id: `{}` is there twice", request.custom_id.substr(0, 100)));
  }
  if (checked.requests == 0) errors.add("empty_file", nullptr, "the input file has no requests");
  return checked;
}

}  // namespace deepinfer::serving
