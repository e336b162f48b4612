#include "tensor/parallel_load.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "base/on_threads.h"
#include "base/out_of_memory.h"
#include "base/topology.h"

namespace deepinfer {
namespace {

constexpr int kMostThreads = 16;
constexpr uint64_t kBytesForAThread = uint64_t{128} << 20;  // less does not pay for what a thread sets up

// Neighbouring pieces that fill a part, [first, last) of the sorted list.
struct Part {
  size_t first, last;
};

// Pieces no longer than a part, in the order of their files.
std::vector<FilePiece> in_file_order(std::span<const FilePiece> pieces) {
  std::vector<FilePiece> list;
  for (const FilePiece& piece : pieces) {
    for (uint64_t done = 0; done < piece.bytes; done += kLoadPart)
      list.push_back({piece.file, piece.offset + done, std::min(kLoadPart, piece.bytes - done), piece.to + done});
  }
  std::sort(list.begin(), list.end(), [](const FilePiece& a, const FilePiece& b) {
    return a.file != b.file ? a.file->path() < b.file->path() : a.offset < b.offset;
  });
  return list;
}

std::vector<Part> parts_of(const std::vector<FilePiece>& list) {
  std::vector<Part> parts;
  uint64_t bytes = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (parts.empty() || bytes + list[i].bytes > kLoadPart) {
      parts.push_back({i, i});
      bytes = 0;
    }
    parts.back().last = i + 1;
    bytes += list[i].bytes;
  }
  return parts;
}

std::string what() {
  return "the list of weights to read";
}

Status load(std::span<const FilePiece> pieces, int threads, MakePartLoader make) {
  const std::vector<FilePiece> list = in_file_order(pieces);
  const std::vector<Part> parts = parts_of(list);
  if (parts.empty()) return {};
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  Status first;  // error
  const auto work = [&](size_t thread) {
    const Status status = or_out_of_memory(what, [&]() -> Status {
      DI_ASSIGN_OR_RETURN(const std::unique_ptr<PartLoader> loader, make(static_cast<int>(thread)));
      for (size_t part = next++; part < parts.size() && !failed; part = next++)
        DI_RETURN_IF_ERROR(
            loader->load(std::span(list).subspan(parts[part].first, parts[part].last - parts[part].first)));
      return loader->finish();
    });
    if (status.ok()) return;
    failed = true;
    const std::scoped_lock lock(mutex);
    if (first.ok()) first = status;
  };
  on_threads(std::min<size_t>(static_cast<size_t>(std::max(1, threads)), parts.size()), work);
  return first;
}

class PlainLoader final : public PartLoader {
 public:
  Status load(std::span<const FilePiece> part) override {
    for (const FilePiece& piece : part)
      DI_RETURN_IF_ERROR(piece.file->copy(piece.offset, {piece.to, static_cast<size_t>(piece.bytes)}));
    return {};
  }
};

}  // namespace

int load_threads(uint64_t bytes) {
  const uint64_t worth = 1 + bytes / kBytesForAThread;
  const int most = std::min(kMostThreads, std::max(1, read_topology().usable_threads()));
  return static_cast<int>(std::min<uint64_t>(worth, static_cast<uint64_t>(most)));
}

Status load_in_parts(std::span<const FilePiece> pieces, int threads, MakePartLoader make) {
  return or_out_of_memory(what, [&] { return load(pieces, threads, make); });
}

Status load_into_host_memory(std::span<const FilePiece> pieces) {
  uint64_t bytes = 0;
  for (const FilePiece& piece : pieces) bytes += piece.bytes;
  return load_in_parts(pieces, load_threads(bytes), [](int) {
    return Result<std::unique_ptr<PartLoader>>(std::unique_ptr<PartLoader>(std::make_unique<PlainLoader>()));
  });
}

}  // namespace deepinfer
