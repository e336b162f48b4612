#include "engine/tiers/record_index.h"

#include <fmt/format.h>
#include <lmdb.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <system_error>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "index.mdb";
constexpr const char* kSeal = "index.seal";
constexpr const char* kNew = "index.new";

struct StoredKey {
  uint64_t low, high;
  uint32_t kind, unused;
};
struct StoredPlace {
  uint64_t offset;
  int64_t bytes;
  int64_t note[2];
  uint32_t segment, unused;
};

StoredKey stored(const KvKey& key) {
  return {key.chain.low, key.chain.high, static_cast<uint32_t>(key.kind), 0};
}
StoredPlace stored(const RecordPlace& place) {
  return {place.offset, place.entry.bytes, {place.entry.note[0], place.entry.note[1]}, place.segment, 0};
}

template <typename T>
MDB_val value_of(T& bytes) {
  return {sizeof bytes, &bytes};
}
// LMDB aligns values to two bytes only.
template <typename T>
std::optional<T> from_value(const MDB_val& value) {
  if (value.mv_size != sizeof(T)) return std::nullopt;
  T result;
  std::memcpy(&result, value.mv_data, sizeof result);
  return result;
}

RecordPlace place_of(const StoredPlace& p) {
  return {p.segment, p.offset, {p.bytes, {p.note[0], p.note[1]}}};
}

Status failure(const fs::path& folder, const char* what, int code) {
  return io_error(fmt::format("{}: {}: {}", (folder / kFile).string(), what, mdb_strerror(code)));
}

// A transaction that is given up unless it is committed.
class Transaction {
 public:
  Transaction(MDB_env* env, unsigned flags) { error_ = mdb_txn_begin(env, nullptr, flags, &txn_); }
  ~Transaction() {
    if (txn_ != nullptr) mdb_txn_abort(txn_);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  int error() const { return error_; }
  MDB_txn* get() const { return txn_; }
  int commit() { return mdb_txn_commit(std::exchange(txn_, nullptr)); }

 private:
  MDB_txn* txn_ = nullptr;
  int error_ = 0;
};

// Size and checksum of the whole file, as the seal has them.
std::optional<std::string> seal_of(const fs::path& file) {
  std::FILE* in = std::fopen(file.c_str(), "rb");
  if (in == nullptr) return std::nullopt;
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  std::vector<char> buffer(size_t{1} << 20);
  uint64_t bytes = 0;
  for (size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), in)) > 0; bytes += got)
    XXH3_128bits_update(&state, buffer.data(), got);
  const bool failed = std::ferror(in) != 0;
  std::fclose(in);
  if (failed) return std::nullopt;
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return fmt::format("deepinfer kv index 1\n{} bytes\nxxh3 {:016x}{:016x}\n", bytes, hash.high64, hash.low64);
}

Result<MDB_env*> open_env(const fs::path& folder, const char* file, uint64_t map_bytes, unsigned flags) {
  MDB_env* env = nullptr;
  int error = mdb_env_create(&env);
  if (error == 0) error = mdb_env_set_mapsize(env, map_bytes);
  if (error == 0) error = mdb_env_open(env, (folder / file).c_str(), flags | MDB_NOSUBDIR | MDB_NOTLS, 0644);
  if (error == 0) return env;
  mdb_env_close(env);
  return failure(folder, "cannot be opened", error);
}

int put_all(MDB_txn* txn, unsigned database, std::span<const RecordIndex::Entry> entries) {
  for (const auto& [key, place] : entries) {
    StoredKey k = stored(key);
    StoredPlace p = stored(place);
    MDB_val key_value = value_of(k), place_value = value_of(p);
    if (const int error = mdb_put(txn, database, &key_value, &place_value, 0); error != 0) return error;
  }
  return 0;
}

}  // namespace

bool RecordIndex::sealed(const fs::path& folder) {
  std::ifstream in(folder / kSeal, std::ios::binary);
  if (!in) return false;
  const std::string written((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return written == seal_of(folder / kFile);
}

Status RecordIndex::build(const fs::path& folder, uint64_t map_bytes, std::span<const Entry> entries) {
  // In a file of its own that takes the old one's place when it is whole: readers keep the old one.
  const auto remove_lock = [&](const char* file) {
    std::error_code ignored;
    fs::remove(folder / (std::string(file) + "-lock"), ignored);
  };
  std::error_code error;
  fs::remove(folder / kSeal, error);
  fs::remove(folder / kNew, error);
  remove_lock(kNew);
  DI_ASSIGN_OR_RETURN(MDB_env * env, open_env(folder, kNew, map_bytes, MDB_NOSYNC));
  const int failed = [&] {
    Transaction txn(env, 0);
    if (txn.error() != 0) return txn.error();
    MDB_dbi database = 0;
    if (const int e = mdb_dbi_open(txn.get(), nullptr, 0, &database); e != 0) return e;
    if (const int e = put_all(txn.get(), database, entries); e != 0) return e;
    return txn.commit();
  }();
  mdb_env_close(env);
  remove_lock(kNew);
  if (failed != 0) return failure(folder, "cannot be made again", failed);
  fs::rename(folder / kNew, folder / kFile, error);
  if (error) return io_error(fmt::format("{}: {}", (folder / kFile).string(), error.message()));
  remove_lock(kFile);
  return {};
}

Result<RecordIndex> RecordIndex::open(const fs::path& folder, uint64_t map_bytes, bool writable) {
  DI_ASSIGN_OR_RETURN(MDB_env * env, open_env(folder, kFile, map_bytes, writable ? MDB_NOSYNC : MDB_RDONLY));
  MDB_dbi database = 0;
  Transaction txn(env, writable ? 0 : MDB_RDONLY);
  int error = txn.error();
  if (error == 0) error = mdb_dbi_open(txn.get(), nullptr, 0, &database);
  if (error == 0) error = txn.commit();
  RecordIndex index(folder, env, database, writable);
  if (error != 0) return failure(folder, "cannot be read", error);
  if (writable) {
    std::error_code failed;
    fs::remove(folder / kSeal, failed);
    if (failed) return io_error(fmt::format("{}: {}", (folder / kSeal).string(), failed.message()));
  }
  return index;
}

RecordIndex::RecordIndex(RecordIndex&& other) noexcept
    : folder_(std::move(other.folder_)),
      env_(std::exchange(other.env_, nullptr)),
      database_(other.database_),
      writable_(other.writable_) {}

RecordIndex::~RecordIndex() {
  if (env_ != nullptr) mdb_env_close(env_);
}

std::optional<RecordPlace> RecordIndex::find(const KvKey& key) const {
  const Transaction txn(env_, MDB_RDONLY);
  if (txn.error() != 0) return std::nullopt;
  StoredKey k = stored(key);
  MDB_val key_value = value_of(k), place_value{};
  if (mdb_get(txn.get(), database_, &key_value, &place_value) != 0) return std::nullopt;
  const auto place = from_value<StoredPlace>(place_value);
  if (!place) return std::nullopt;
  return place_of(*place);
}

Status RecordIndex::put(std::span<const Entry> entries) {
  Transaction txn(env_, 0);
  int error = txn.error();
  if (error == 0) error = put_all(txn.get(), database_, entries);
  if (error == 0) error = txn.commit();
  return error == 0 ? Status() : failure(folder_, "cannot be written", error);
}

void RecordIndex::remove(const KvKey& key) {
  Transaction txn(env_, 0);
  if (txn.error() != 0) return;  // the record is looked at, found damaged and dropped again next time
  StoredKey k = stored(key);
  MDB_val key_value = value_of(k);
  if (mdb_del(txn.get(), database_, &key_value, nullptr) == 0) static_cast<void>(txn.commit());
}

Status RecordIndex::remove_segment(uint32_t segment) {
  Transaction txn(env_, 0);
  int error = txn.error();
  if (error == 0) {
    MDB_cursor* cursor = nullptr;
    error = mdb_cursor_open(txn.get(), database_, &cursor);
    MDB_val key{}, value{};
    while (error == 0 && (error = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
      const auto place = from_value<StoredPlace>(value);
      if (!place || place->segment == segment) error = mdb_cursor_del(cursor, 0);
    }
    if (error == MDB_NOTFOUND) error = 0;
    if (cursor != nullptr) mdb_cursor_close(cursor);
  }
  if (error == 0) error = txn.commit();
  return error == 0 ? Status() : failure(folder_, "cannot be written", error);
}

void RecordIndex::for_each(FunctionRef<void(const KvKey&, const RecordPlace&)> visit) const {
  const Transaction txn(env_, MDB_RDONLY);
  MDB_cursor* cursor = nullptr;
  if (txn.error() != 0 || mdb_cursor_open(txn.get(), database_, &cursor) != 0) return;
  MDB_val key{}, value{};
  while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
    const auto k = from_value<StoredKey>(key);
    const auto place = from_value<StoredPlace>(value);
    if (k && place) visit({static_cast<KvKind>(k->kind), {k->low, k->high}}, place_of(*place));
  }
  mdb_cursor_close(cursor);
}

Status RecordIndex::close() {
  mdb_env_close(std::exchange(env_, nullptr));
  if (!writable_) return {};
  const auto seal = seal_of(folder_ / kFile);
  if (!seal) return io_error(fmt::format("{}: cannot be read", (folder_ / kFile).string()));
  const fs::path part = folder_ / (std::string(kSeal) + ".part");
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  out << *seal;
  out.close();
  std::error_code failed;
  if (out) fs::rename(part, folder_ / kSeal, failed);
  if (!out || failed) return io_error(fmt::format("{}: cannot be written", (folder_ / kSeal).string()));
  return {};
}

}  // namespace deepinfer
