#include "serving/files/batch_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/bounded_file.h"
#include "serving/batch/durable_file.h"

namespace deepinfer::serving {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostRecordBytes = 1 << 20;
constexpr size_t kMostUnfinished = 100;  // of one owner
constexpr size_t kMostKept = 1000;       // of one owner; then the oldest that have ended are forgotten
constexpr const char* kRecord = ".json";

}  // namespace

BatchService::BatchService(Engine& engine, FileStore& files, BatchServiceOptions options)
    : engine_(engine), files_(files), options_(std::move(options)) {}

Result<std::unique_ptr<BatchService>> BatchService::open(Engine& engine, FileStore& files,
                                                         BatchServiceOptions options) {
  std::unique_ptr<BatchService> service(new BatchService(engine, files, std::move(options)));
  DI_RETURN_IF_ERROR(service->load());
  for (int i = 0; i < service->options_.concurrent; ++i)
    service->threads_.emplace_back([self = service.get()] { self->work(); });
  return service;
}

BatchService::~BatchService() {
  begin_close();
  for (std::thread& thread : threads_) thread.join();
}

void BatchService::begin_close() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  for (const auto& [id, batch] : batches_) batch->interrupted = true;
  some_.notify_all();
}

fs::path BatchService::path(const std::string& id, const char* extension) const {
  return files_.batches() / (id + extension);
}

Status BatchService::load() {
  std::error_code error;
  std::vector<fs::path> names;
  for (fs::directory_iterator at(files_.batches(), error), end; !error && at != end; at.increment(error))
    names.push_back(at->path());
  if (error) return io_error(fmt::format("{}: cannot be read: {}", files_.batches().string(), error.message()));
  for (const fs::path& name : names) {
    if (name.extension() != kRecord) continue;
    const Result<std::string> text = read_bounded_file(name, kMostRecordBytes);
    if (!text.ok()) return text.status();
    Result<BatchRecord> record = BatchRecord::parse(*text);
    if (!record.ok()) return record.status().with_context(name.string());
    auto batch = std::make_shared<Batch>();
    batch->record = std::move(record).value();
    batches_.emplace(batch->record.id, std::move(batch));
  }
  // What batches that have ended, or were never kept, have left.
  for (const fs::path& name : names) {
    const auto found = batches_.find(name.stem().string());
    const bool needed =
        found != batches_.end() &&
        (name.extension() == kRecord || (name.extension() == ".results" && !has_ended(found->second->record.status)));
    if (!needed && name.filename().string().starts_with("batch_")) fs::remove(name, error);
  }
  return {};
}

Status BatchService::update(Batch& batch, FunctionRef<void(BatchRecord&)> change) {
  const std::lock_guard lock(mutex_);
  change(batch.record);
  return write_durably(path(batch.record.id, kRecord), batch.record.text());
}

BatchRecord BatchService::record_of(const Batch& batch) const {
  const std::lock_guard lock(mutex_);
  return batch.record;
}

Result<BatchRecord> BatchService::create(const std::string& owner, NewBatch wanted) {
  if (!files_.find(owner, wanted.input_file_id))
    return invalid_argument(fmt::format("input_file_id: there is no file `{}`", wanted.input_file_id.substr(0, 100)));
  const int64_t now = options_.clock();
  auto batch = std::make_shared<Batch>();
  BatchRecord& record = batch->record;
  record.id = ids_.id("batch_");
  record.owner = owner;
  record.endpoint = std::move(wanted.endpoint);
  record.input_file_id = std::move(wanted.input_file_id);
  record.metadata = std::move(wanted.metadata);
  record.seed = ids_.number();
  record.expires = now + options_.window;
  record.enter(BatchStatus::kValidating, now);

  const std::lock_guard lock(mutex_);
  size_t unfinished = 0, kept = 0;
  const Batch* oldest = nullptr;
  for (const auto& [id, other] : batches_) {
    const BatchRecord& known = other->record;
    if (known.owner != owner) continue;
    ++kept;
    if (!has_ended(known.status)) {
      ++unfinished;
    } else if (oldest == nullptr ||
               known.time(BatchStatus::kValidating) < oldest->record.time(BatchStatus::kValidating)) {
      oldest = other.get();
    }
  }
  if (unfinished >= kMostUnfinished)
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("There are {} batches that have not ended, as many as there may be.", unfinished));
  DI_RETURN_IF_ERROR(write_durably(path(record.id, kRecord), record.text()));
  if (kept >= kMostKept && oldest != nullptr) {
    std::error_code ignored;
    const std::string id = oldest->record.id;
    fs::remove(path(id, kRecord), ignored);
    batches_.erase(id);
  }
  batches_.emplace(record.id, batch);
  some_.notify_one();
  return record;
}

std::optional<BatchRecord> BatchService::find(const std::string& owner, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = batches_.find(id);
  if (found == batches_.end() || found->second->record.owner != owner) return std::nullopt;
  return found->second->record;
}

std::vector<BatchRecord> BatchService::list(const std::string& owner) const {
  std::vector<BatchRecord> list;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, batch] : batches_)
      if (batch->record.owner == owner) list.push_back(batch->record);
  }
  std::sort(list.begin(), list.end(), [](const BatchRecord& a, const BatchRecord& b) {
    const auto one = a.time(BatchStatus::kValidating), other = b.time(BatchStatus::kValidating);
    return one != other ? one < other : a.id < b.id;
  });
  return list;
}

Result<BatchRecord> BatchService::cancel(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = batches_.find(id);
  if (found == batches_.end() || found->second->record.owner != owner) return not_found("There is no such batch.");
  Batch& batch = *found->second;
  BatchRecord& record = batch.record;
  if (record.status == BatchStatus::kCancelling) return record;
  if (record.status != BatchStatus::kValidating && record.status != BatchStatus::kInProgress)
    return invalid_argument(fmt::format("A batch with status `{}` cannot be cancelled.", to_string(record.status)));
  record.enter(BatchStatus::kCancelling, options_.clock());
  record.ends_as = BatchStatus::kCancelled;
  batch.interrupted = true;
  std::error_code ignored;
  // Nothing of it has run: nobody needs to clear up.
  if (!batch.running && !fs::exists(path(id, ".results"), ignored))
    record.enter(BatchStatus::kCancelled, options_.clock());
  DI_RETURN_IF_ERROR(write_durably(path(id, kRecord), record.text()));
  some_.notify_one();
  return record;
}

std::optional<std::string> BatchService::user_of(const std::string& file) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, batch] : batches_)
    if (batch->record.input_file_id == file && !has_ended(batch->record.status)) return id;
  return std::nullopt;
}

int64_t BatchService::unfinished() const {
  const std::lock_guard lock(mutex_);
  return std::count_if(batches_.begin(), batches_.end(),
                       [](const auto& entry) { return !has_ended(entry.second->record.status); });
}

}  // namespace deepinfer::serving
