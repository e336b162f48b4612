// Segments: the append-only files of a disk store, `seg-<number>.kv`, their sizes and when they were last used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/status.h"
#include "engine/tiers/segment_record.h"

namespace deepinfer {

class Segments {
 public:
  explicit Segments(std::filesystem::path folder) : folder_(std::move(folder)) {}
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;
  ~Segments();

  // Finds the files that are there.
  Status list();
  int64_t bytes() const { return bytes_; }
  std::vector<uint32_t> numbers() const;
  // Size of the file as it was found or written; 0: there is none.
  uint64_t size(uint32_t segment) const;
  void set_size(uint32_t segment, uint64_t bytes);
  // A new, empty file with the highest number.
  Result<uint32_t> add();
  // Cuts a file off behind its last whole record.
  Status truncate(uint32_t segment, uint64_t bytes);
  void remove(uint32_t segment);

  // A file descriptor for reading, and for writing where it was added or truncated here; -1: it cannot be opened.  Also
  // of segments that another process has added since list().
  int file(uint32_t segment);
  // Marks a use, on the file too, so that later processes know.
  void use(uint32_t segment);
  // The one used longest ago, `kept` apart.
  std::optional<uint32_t> least_used(uint32_t kept) const;

  // Visits the headers of all whole records; returns where the last one ends, its padding included.  Damaged places are
  // passed over.
  uint64_t scan(uint32_t segment, uint64_t identity,
                const std::function<void(uint64_t offset, const RecordHeader&)>& visit);

 private:
  struct Segment {
    uint64_t bytes = 0;
    int64_t used = 0;     // seconds of the clock
    int64_t stamped = 0;  // as the file says
    uint64_t order = 0;   // of uses within a second
    int file = -1;
    bool writable = false;
  };
  std::filesystem::path path(uint32_t segment) const;
  void close(Segment& segment);
  bool open(uint32_t number, Segment& segment, bool writable);

  std::filesystem::path folder_;
  std::map<uint32_t, Segment> segments_;
  int64_t bytes_ = 0;
  uint64_t uses_ = 0;
  int open_ = 0;
};

}  // namespace deepinfer
