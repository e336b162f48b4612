#include "engine/tiers/disk_kv_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "engine/tiers/segment_record.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = "writer.lock";
constexpr const char* kIdentity = "identity.txt";
constexpr uint64_t kLeastSegmentBytes = uint64_t{128} << 10;
constexpr uint64_t kMostSegmentBytes = uint64_t{256} << 20;

// LMDB must not have a file open twice in one process.
class OpenFolders {
 public:
  bool add(const fs::path& folder) {
    const std::lock_guard lock(mutex_);
    return folders_.insert(folder).second;
  }
  void remove(const fs::path& folder) {
    const std::lock_guard lock(mutex_);
    folders_.erase(folder);
  }

 private:
  std::mutex mutex_;
  std::set<fs::path> folders_;
};
OpenFolders& open_folders() {
  static OpenFolders folders;
  return folders;
}

// The lock of the process that writes; -1: another has it, or the folder is not ours to write.
int take_lock(const fs::path& folder) {
  const int file = ::open((folder / kLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0 || ::flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  ::close(file);
  return -1;
}

int64_t bytes_below(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code gone;
    if (const auto size = entry->file_size(gone); !gone) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

// Stores of other identities (other models, earlier builds) that nobody uses go, the oldest first, until `capacity` is
// enough for all.
void remove_old_siblings(const fs::path& own, int64_t capacity) {
  struct Sibling {
    fs::file_time_type used;
    fs::path folder;
    int64_t bytes;
  };
  std::vector<Sibling> siblings;
  int64_t total = bytes_below(own);
  std::error_code error;
  for (fs::directory_iterator entry(own.parent_path(), error), end; !error && entry != end; entry.increment(error)) {
    const fs::path& folder = entry->path();
    std::error_code none;
    if (folder == own || !fs::exists(folder / kIdentity, none)) continue;
    siblings.push_back({fs::last_write_time(folder / kLock, none), folder, bytes_below(folder)});
    total += siblings.back().bytes;
  }
  std::sort(siblings.begin(), siblings.end(), [](const Sibling& a, const Sibling& b) { return a.used < b.used; });
  for (const Sibling& sibling : siblings) {
    if (total <= capacity) return;
    const int lock = take_lock(sibling.folder);
    if (lock < 0) continue;
    fs::remove_all(sibling.folder, error);
    ::close(lock);
    total -= sibling.bytes;
  }
}

// Makes the identity's folder; its name is a hash, so the text inside decides.
Result<fs::path> identity_folder(const fs::path& folder, const std::string& identity) {
  const XXH128_hash_t hash = XXH3_128bits(identity.data(), identity.size());
  fs::path own = folder / fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  std::error_code error;
  fs::create_directories(own, error);
  if (error && !fs::is_directory(own)) return io_error(fmt::format("{}: {}", own.string(), error.message()));
  own = fs::canonical(own, error);
  if (error) return io_error(fmt::format("{}: {}", own.string(), error.message()));
  return own;
}

}  // namespace

DiskKvStore::DiskKvStore(fs::path folder, int64_t capacity, uint64_t identity, std::unique_ptr<FileIo> io)
    : folder_(std::move(folder)),
      capacity_(capacity),
      segment_bytes_(std::clamp(static_cast<uint64_t>(capacity) / 16, kLeastSegmentBytes, kMostSegmentBytes)),
      map_bytes_(std::max<uint64_t>(uint64_t{64} << 20, static_cast<uint64_t>(capacity) / 4 / 4096 * 4096)),
      identity_(identity),
      io_(std::move(io)),
      segments_(folder_) {}

Result<std::unique_ptr<DiskKvStore>> DiskKvStore::open(const DiskKvStoreOptions& options) {
  DI_CHECK(options.capacity_bytes >= kLeastKvDiskBytes, "a store of " + std::to_string(options.capacity_bytes));
  std::unique_ptr<FileIo> io = make_file_io(options.io);
  if (io == nullptr) return unsupported("io_uring is not permitted on this system; choose pread");
  DI_ASSIGN_OR_RETURN(fs::path folder, identity_folder(options.folder, options.identity));
  const uint64_t identity = XXH3_64bits(options.identity.data(), options.identity.size());
  std::unique_ptr<DiskKvStore> store(
      new DiskKvStore(std::move(folder), options.capacity_bytes, identity, std::move(io)));
  if (!open_folders().add(store->folder_))
    return invalid_argument(fmt::format("{}: this process has it open already", store->folder_.string()));
  store->registered_ = true;
  store->lock_ = take_lock(store->folder_);
  if (store->writable()) {
    ::futimens(store->lock_, nullptr);
    remove_old_siblings(store->folder_, options.capacity_bytes);
    std::ofstream(store->folder_ / kIdentity, std::ios::binary) << options.identity;
  }
  DI_RETURN_IF_ERROR(store->segments_.list());
  DI_RETURN_IF_ERROR(store->open_index());
  return store;
}

DiskKvStore::~DiskKvStore() {
  // Without a seal the next open scans the segments: nothing is lost.
  if (index_ && writable()) static_cast<void>(index_->close());
  index_.reset();
  if (lock_ >= 0) ::close(lock_);
  if (registered_) open_folders().remove(folder_);
}

Status DiskKvStore::open_index() {
  const bool sealed = RecordIndex::sealed(folder_);
  if (!writable()) {
    // Sound if a living writer has it open, or sealed.  Any other is the next writer's to make again.
    const int probe = ::open((folder_ / kLock).c_str(), O_RDONLY | O_CLOEXEC);
    const bool written = probe >= 0 && ::flock(probe, LOCK_SH | LOCK_NB) != 0;
    if (probe >= 0) ::close(probe);
    if (!written && !sealed) return {};
    auto index = RecordIndex::open(folder_, map_bytes_, false);
    if (index.ok()) index_ = std::make_unique<RecordIndex>(std::move(*index));
    return {};
  }
  if (!sealed) DI_RETURN_IF_ERROR(rebuild_index());
  DI_ASSIGN_OR_RETURN(RecordIndex index, RecordIndex::open(folder_, map_bytes_, true));
  index_ = std::make_unique<RecordIndex>(std::move(index));
  if (sealed) drop_strays();
  return go_on_writing();
}

Status DiskKvStore::rebuild_index() {
  struct HashOf {
    size_t operator()(const KvKey& key) const { return key.chain.low ^ static_cast<uint64_t>(key.kind); }
  };
  std::unordered_map<KvKey, RecordPlace, HashOf> places;  // the last record of a key counts
  for (const uint32_t segment : segments_.numbers()) {
    bool any = false;
    const uint64_t end = segments_.scan(segment, identity_, [&](uint64_t offset, const RecordHeader& header) {
      places[header.key] = {segment, offset, {static_cast<int64_t>(header.payload_bytes), header.note}};
      any = true;
    });
    if (!any) {
      segments_.remove(segment);
    } else if (end < segments_.size(segment)) {
      DI_RETURN_IF_ERROR(segments_.truncate(segment, end));
    }
  }
  const std::vector<RecordIndex::Entry> entries(places.begin(), places.end());
  return RecordIndex::build(folder_, map_bytes_, entries);
}

// Segments that no entry names.
void DiskKvStore::drop_strays() {
  std::set<uint32_t> named;
  index_->for_each([&](const KvKey&, const RecordPlace& place) { named.insert(place.segment); });
  for (const uint32_t segment : segments_.numbers()) {
    if (!named.contains(segment)) segments_.remove(segment);
  }
}

// The last segment is gone on with if there is room in it: many short runs shall not leave many small files.
Status DiskKvStore::go_on_writing() {
  const std::vector<uint32_t> numbers = segments_.numbers();
  if (numbers.empty() || segments_.size(numbers.back()) >= segment_bytes_) return {};
  const uint64_t size = segments_.size(numbers.back());
  DI_RETURN_IF_ERROR(segments_.truncate(numbers.back(), record_stride(size) - record_stride(0)));
  active_ = numbers.back();
  return {};
}

std::optional<KvEntry> DiskKvStore::find(const KvKey& key) {
  if (!index_) return std::nullopt;
  const auto place = index_->find(key);
  if (!place) return std::nullopt;
  return place->entry;
}

void DiskKvStore::dropped(const KvKey& key) {
  ++stats_.corrupt;
  if (writable()) index_->remove(key);
}

void DiskKvStore::get(std::span<KvRead> reads) {
  struct Pending {
    KvRead* read;
    RecordPlace place;
    std::array<std::byte, kRecordHeaderBytes> header;
  };
  std::vector<Pending> pending;
  pending.reserve(reads.size());
  for (KvRead& read : reads) {
    read.found = false;
    if (!index_) continue;
    const auto place = index_->find(read.key);
    if (!place || place->entry.bytes != static_cast<int64_t>(read.payload.size())) continue;
    pending.push_back({&read, *place, {}});
  }
  std::vector<IoPiece> pieces;
  pieces.reserve(2 * pending.size());
  for (Pending& p : pending) {
    const int file = segments_.file(p.place.segment);
    pieces.push_back({file, p.place.offset, p.header.data(), p.header.size()});
    pieces.push_back({file, p.place.offset + kRecordHeaderBytes, p.read->payload.data(), p.read->payload.size()});
  }
  io_->read(pieces);
  for (size_t i = 0; i < pending.size(); ++i) {
    const Pending& p = pending[i];
    const auto header = decode_record_header(p.header, identity_);
    p.read->found = pieces[2 * i].error == 0 && pieces[2 * i + 1].error == 0 && header && header->key == p.read->key &&
                    header->note == p.place.entry.note && header->payload_bytes == p.read->payload.size() &&
                    header->payload_checksum == record_checksum(p.read->payload);
    if (!p.read->found) {
      dropped(p.read->key);
      continue;
    }
    segments_.use(p.place.segment);
    ++stats_.records_read;
    stats_.bytes_read += p.place.entry.bytes;
  }
}

bool DiskKvStore::fits_as_it_is(uint64_t bytes) const {
  return active_ != 0 && segments_.size(active_) < segment_bytes_ &&
         segments_.bytes() + static_cast<int64_t>(bytes) <= capacity_;
}

// A segment for the next record of so many bytes, and room for it.
Status DiskKvStore::make_room(uint64_t bytes) {
  if (bytes > static_cast<uint64_t>(capacity_) / 4)
    return {StatusCode::kResourceExhausted,
            fmt::format("a record of {} bytes; allowed: a quarter of the capacity of {}", bytes, capacity_)};
  if (active_ == 0 || segments_.size(active_) >= segment_bytes_) {
    DI_ASSIGN_OR_RETURN(active_, segments_.add());
  }
  while (segments_.bytes() + static_cast<int64_t>(bytes) > capacity_) {
    const auto least = segments_.least_used(active_);
    if (!least) return {StatusCode::kResourceExhausted, fmt::format("{} bytes are full", capacity_)};
    DI_RETURN_IF_ERROR(index_->remove_segment(*least));
    segments_.remove(*least);
    ++stats_.evictions;
  }
  return {};
}

Status DiskKvStore::put(std::span<const KvWrite> writes) {
  if (!writable()) return unsupported(fmt::format("{}: another process writes it", folder_.string()));
  // In runs that lie in one segment: nothing is evicted between the making of a run's operations and their end.
  size_t first = 0;
  while (first < writes.size()) {
    DI_RETURN_IF_ERROR(make_room(record_stride(writes[first].payload.size())));
    const uint64_t begin = segments_.size(active_);
    uint64_t end = begin;
    size_t count = 0;
    do {
      end += record_stride(writes[first + count].payload.size());
      segments_.set_size(active_, end);
      ++count;
    } while (first + count < writes.size() && fits_as_it_is(record_stride(writes[first + count].payload.size())));
    DI_RETURN_IF_ERROR(append(begin, writes.subspan(first, count)));
    first += count;
  }
  return {};
}

// Data first, then the index.
Status DiskKvStore::append(uint64_t offset, std::span<const KvWrite> writes) {
  std::vector<std::array<std::byte, kRecordHeaderBytes>> headers(writes.size());
  std::vector<RecordIndex::Entry> entries;
  std::vector<IoPiece> pieces;
  const int file = segments_.file(active_);
  for (size_t i = 0; i < writes.size(); ++i) {
    const KvWrite& write = writes[i];
    const uint64_t bytes = write.payload.size();
    encode({write.key, write.note, bytes, record_checksum(write.payload)}, identity_, headers[i]);
    pieces.push_back({file, offset, headers[i].data(), kRecordHeaderBytes});
    // Writing does not change what is written.
    pieces.push_back({file, offset + kRecordHeaderBytes, const_cast<std::byte*>(write.payload.data()), bytes});
    entries.push_back({write.key, {active_, offset, {static_cast<int64_t>(bytes), write.note}}});
    offset += record_stride(bytes);
  }
  io_->write(pieces);
  for (const IoPiece& piece : pieces) {
    if (piece.error != 0) return io_error(fmt::format("{}: {}", folder_.string(), std::strerror(piece.error)));
  }
  segments_.use(active_);
  DI_RETURN_IF_ERROR(index_->put(entries));
  for (const RecordIndex::Entry& entry : entries) stats_.bytes_written += entry.second.entry.bytes;
  stats_.records_written += static_cast<int64_t>(entries.size());
  return {};
}

KvStoreStats DiskKvStore::stats() const {
  KvStoreStats stats = stats_;
  stats.bytes_held = segments_.bytes();
  return stats;
}

}  // namespace deepinfer
