// MappedFile: one regular file mapped read-only, and the guard against its shrinking.  Used by the checkpoint reader.
//
// A mapped page whose file has shrunk, or whose storage fails, raises SIGBUS when it is touched: long after every
// check, on any thread.  The first map installs a handler which, if the address lies in a map of ours, names the file
// on standard error and ends the process with kMappedFileLostExitCode; any other SIGBUS goes to the handler before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace deepinfer {

inline constexpr int kMappedFileLostExitCode = 74;  // EX_IOERR of sysexits.h
inline constexpr int kMaxMappedFiles = 4096;        // at one time in a process

class MappedFile {
 public:
  // Symbolic links are followed (a Hugging Face cache is made of them); what they lead to must be a regular file.
  // Errors: kNotFound, kIoError with the system's reason, kInvalidArgument for a folder or device,
  // kResourceExhausted beyond kMaxMappedFiles.  No page is read.
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  const std::byte* data() const { return data_; }  // nullptr for an empty file
  uint64_t size() const { return size_; }          // bytes, when it was opened

  // Copies [offset, offset + out.size()) by read calls: no page fault, no read-ahead, an error instead of SIGBUS.
  Status copy(uint64_t offset, std::span<std::byte> out) const;

  // Hints, clipped to the file; they never fail and never block for long.
  void prefetch(uint64_t offset, uint64_t bytes) const;  // will be needed soon: start reading
  void prefetch() const { prefetch(0, size_); }
  void expect_random(uint64_t offset, uint64_t bytes) const;  // single rows will be read: no read-ahead

 private:
  void close() noexcept;

  std::string path_;
  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  int descriptor_ = -1;
  int guard_ = -1;  // entry in the table of the SIGBUS handler
};

}  // namespace deepinfer
