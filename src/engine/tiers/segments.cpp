#include "engine/tiers/segments.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <string>
#include <system_error>
#include <tuple>

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

constexpr int kMostOpenFiles = 64;
constexpr int64_t kStampSeconds = 30;  // uses closer together are not written to the file

std::optional<uint32_t> number_of(const std::string& name) {
  if (!name.starts_with("seg-") || !name.ends_with(".kv")) return std::nullopt;
  uint32_t number = 0;
  const char* const end = name.data() + name.size() - 3;
  const auto [stop, error] = std::from_chars(name.data() + 4, end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace

Segments::~Segments() {
  for (auto& [number, segment] : segments_) close(segment);
}

fs::path Segments::path(uint32_t segment) const {
  return folder_ / fmt::format("seg-{:010}.kv", segment);
}

void Segments::close(Segment& segment) {
  if (segment.file < 0) return;
  ::close(segment.file);
  segment.file = -1;
  --open_;
}

bool Segments::open(uint32_t number, Segment& segment, bool writable) {
  if (open_ >= kMostOpenFiles) {
    for (auto& [other, of] : segments_) {
      if (!of.writable) close(of);
    }
  }
  segment.writable = writable;
  segment.file = ::open(path(number).c_str(), (writable ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (segment.file >= 0) ++open_;
  return segment.file >= 0;
}

Status Segments::list() {
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    const auto number = number_of(entry->path().filename().string());
    struct stat status {};
    if (!number || ::lstat(entry->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    Segment& segment = segments_[*number];
    segment.bytes = static_cast<uint64_t>(status.st_size);
    segment.used = segment.stamped = status.st_mtime;
    segment.order = *number;
    uses_ = std::max<uint64_t>(uses_, *number + 1);
    bytes_ += static_cast<int64_t>(segment.bytes);
  }
  if (error) return io_error(fmt::format("{}: {}", folder_.string(), error.message()));
  return {};
}

std::vector<uint32_t> Segments::numbers() const {
  std::vector<uint32_t> result;
  for (const auto& [number, segment] : segments_) result.push_back(number);
  return result;
}

uint64_t Segments::size(uint32_t segment) const {
  const auto found = segments_.find(segment);
  return found == segments_.end() ? 0 : found->second.bytes;
}

void Segments::set_size(uint32_t segment, uint64_t bytes) {
  Segment& s = segments_.at(segment);
  bytes_ += static_cast<int64_t>(bytes) - static_cast<int64_t>(s.bytes);
  s.bytes = bytes;
}

Result<uint32_t> Segments::add() {
  const uint32_t number = segments_.empty() ? 1 : segments_.rbegin()->first + 1;
  Segment segment;
  if (!open(number, segment, true)) return io_error(fmt::format("{}: {}", path(number).string(), std::strerror(errno)));
  segments_[number] = segment;
  use(number);
  return number;
}

Status Segments::truncate(uint32_t segment, uint64_t bytes) {
  Segment& s = segments_.at(segment);
  close(s);
  if (!open(segment, s, true) || ::ftruncate(s.file, static_cast<off_t>(bytes)) != 0)
    return io_error(fmt::format("{}: {}", path(segment).string(), std::strerror(errno)));
  set_size(segment, bytes);
  return {};
}

void Segments::remove(uint32_t segment) {
  const auto found = segments_.find(segment);
  if (found == segments_.end()) return;
  close(found->second);
  bytes_ -= static_cast<int64_t>(found->second.bytes);
  ::unlink(path(segment).c_str());
  segments_.erase(found);
}

int Segments::file(uint32_t segment) {
  Segment& s = segments_[segment];
  if (s.file < 0 && !open(segment, s, false)) return -1;
  return s.file;
}

void Segments::use(uint32_t segment) {
  const auto found = segments_.find(segment);
  if (found == segments_.end()) return;
  Segment& s = found->second;
  s.order = ++uses_;
  const int64_t now = std::time(nullptr);
  s.used = now;
  if (now - s.stamped < kStampSeconds) return;
  s.stamped = now;
  ::utimensat(AT_FDCWD, path(segment).c_str(), nullptr, 0);  // where it cannot be written the old time stays
}

std::optional<uint32_t> Segments::least_used(uint32_t kept) const {
  std::optional<uint32_t> least;
  std::tuple<int64_t, uint64_t> rank;
  for (const auto& [number, segment] : segments_) {
    const std::tuple<int64_t, uint64_t> own(segment.used, segment.order);
    if (number == kept || (least && own >= rank)) continue;
    least = number;
    rank = own;
  }
  return least;
}

uint64_t Segments::scan(uint32_t segment, uint64_t identity,
                        const std::function<void(uint64_t, const RecordHeader&)>& visit) {
  const int descriptor = file(segment);
  if (descriptor < 0) return 0;
  const uint64_t size = this->size(segment);
  std::vector<std::byte> window(size_t{64} << 10);
  uint64_t at = 0, whole = 0;
  while (at + kRecordHeaderBytes <= size) {
    const ssize_t got = ::pread(descriptor, window.data(), window.size(), static_cast<off_t>(at));
    if (got < static_cast<ssize_t>(kRecordHeaderBytes)) break;
    // The next header in the window; as a rule it is the first thing there.
    std::optional<RecordHeader> header;
    size_t place = 0;
    for (; place + kRecordHeaderBytes <= static_cast<size_t>(got); place += kRecordAlignment) {
      header = decode_record_header(
          std::span<const std::byte, kRecordHeaderBytes>(window.data() + place, kRecordHeaderBytes), identity);
      if (header && (header->payload_bytes > size || at + place + kRecordHeaderBytes + header->payload_bytes > size))
        header.reset();  // torn: its end was never written
      if (header) break;
    }
    at += place;
    if (!header) continue;
    visit(at, *header);
    at += record_stride(header->payload_bytes);
    whole = at;
  }
  return whole;
}

}  // namespace deepinfer
